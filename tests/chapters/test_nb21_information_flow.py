"""Flow graphs: edges add up to nodes, shares to logits; pruning, views, and exercises."""

import pytest
import torch
from matplotlib.path import Path

from aot_helpers.models.handmade import induction_model
from aot_helpers.models.protocol import Head
from aot_helpers.reading import paths
from chapters.nb21_information_flow import exercises, figures
from chapters.nb21_information_flow.flow import Node, run_of, sum_of, vector_of
from chapters.nb21_information_flow.flow_graph import (
    MEASURES,
    as_data,
    flow_graph,
    logit_directions,
    prune,
)
from edges_alone import logits_alone
from figure_checks import check_figures
from tiny_models import tiny

KINDS = {
    "shipped": {"layer_norm": False, "positions": "relative"},
    "with MLPs": {"d_mlp": 16, "positions": "standard"},
    "no positions": {"positions": "none", "n_layers": 3},
}
every_kind = pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)


@pytest.fixture(scope="module")
def tiny_gpt2():
    return tiny("gpt2", vocab_size=60, max_position_embeddings=32, num_hidden_layers=3)


def all_nodes(run):
    """Every node that unfolding the whole run can reach."""
    waiting, seen = [run.root], {run.root}
    while waiting:
        found = sum_of(run, waiting.pop())
        for node in found.sources if found else []:
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return seen


def check_sums(run, tokens):
    for node in all_nodes(run):
        if (found := sum_of(run, node)) is not None:
            torch.testing.assert_close(
                found.parts.sum(dim=0), vector_of(run, node), atol=1e-4, rtol=1e-4
            )
    c, last = run.model.config, len(tokens) - 1
    for layer in range(run.layers.start, run.layers.stop):
        for h in range(c.n_heads):
            for k in range(len(tokens)):
                scores = sum_of(run, Node("key", layer, h, k, last)).scores
                score = run.cache[f"L{layer}.scores"][0, h, last, k]
                torch.testing.assert_close(scores.sum(), score, atol=1e-4, rtol=1e-4)


@every_kind
def test_the_edges_into_every_node_add_up_to_it_and_into_keys_to_the_score(
    make_model, some_tokens, changes
):
    check_sums(run_of(make_model(**changes), some_tokens[0]), some_tokens[0])


def test_the_same_with_the_biases_of_a_gpt2_and_in_a_run_of_layers(tiny_gpt2):
    tokens = torch.randint(60, (7,))
    check_sums(run_of(tiny_gpt2, tokens), tokens)
    run = run_of(tiny_gpt2, tokens, range(1, 2))
    check_sums(run, tokens)
    assert {n.layer for n in all_nodes(run) if n.kind in ("head", "mlp")} == {1}
    torch.testing.assert_close(vector_of(run, run.root), run.cache["L2.resid_pre"][0, -1])


@every_kind
def test_shares_of_the_root_are_direct_logit_attribution(make_model, some_tokens, changes):
    model = make_model(**changes)
    run, target = run_of(model, some_tokens[0]), 5
    found = sum_of(run, run.root)
    shares = (found.parts @ logit_directions(run, [target]))[:, 0]
    targets = torch.full_like(some_tokens[:1], target)
    direct = paths.direct_logit_attribution(model, some_tokens[:1], targets)
    for node, share in zip(found.sources, shares, strict=True):
        name = {"token": "embed", "position": "pos_embed", "mlp": f"L{node.layer} mlp"}
        name = name.get(node.kind, str(Head(node.layer, node.number)))
        if node.kind != "bias":
            torch.testing.assert_close(share, direct[name][0, -1], atol=1e-5, rtol=1e-4)


def test_shares_flow_on_a_value_hands_on_what_its_head_has_of_it(make_model, some_tokens):
    model = make_model(layer_norm=False, positions="relative")
    graph = flow_graph(run_of(model, some_tokens[0]), [3], most=99, least=1e-9, keys=False)
    into, out = {}, {}
    for edge in graph.edges:
        into[edge.into] = into.get(edge.into, 0) + edge.shares[0]
        out[edge.source] = out.get(edge.source, 0) + edge.shares[0]
    assert into[0] == pytest.approx(1 if graph.logits[0] > 0 else -1, abs=1e-4)
    for i, node in enumerate(graph.nodes):
        if node.kind in ("head", "value"):
            assert into[i] == pytest.approx(out[i], abs=1e-4)


def test_pruning_keeps_the_strongest_and_never_more_than_asked(make_model, some_tokens):
    graph = flow_graph(run_of(make_model(d_mlp=8, positions="relative"), some_tokens[0]), [3, 4])
    for by in MEASURES:
        sizes = []
        for least in (0.1, 0.3, 1.0):
            small = prune(graph, by, 2, least)
            sizes.append(len(small.edges))
            parts = [e.into for e in small.edges if e.kind == "part"]
            assert max(parts.count(i) for i in parts) <= 2
            assert small.nodes[0] == graph.nodes[0] and len(small.vectors) == len(small.nodes)
        assert sizes[0] >= sizes[1] >= sizes[2] >= 1
    one = prune(graph, "norm", 1, 1.0)
    found = sum_of(graph.run, graph.nodes[0])
    (first,) = [e for e in one.edges if e.into == 0]
    assert one.nodes[first.source] == found.sources[found.parts.norm(dim=-1).argmax()]


def test_bad_input_is_named_with_its_remedy(make_model, some_tokens):
    model, tokens = make_model(positions="relative"), some_tokens[0]
    run = run_of(model, tokens)
    graph = flow_graph(run, [1], most=2, least=0.3)
    smeared = make_model(positions="relative", smeared_keys=True)
    attempts = {
        r"range\(1, 1\).*give range\(first": lambda: run_of(model, tokens, range(1, 1)),
        r"range\(1, 4\).*give range\(first": lambda: run_of(model, tokens, range(1, 4)),
        "shortformer.*take positions": lambda: run_of(make_model(), tokens),
        "no smeared keys": lambda: run_of(smeared, tokens),
        "no token 11.*0 … 10": lambda: flow_graph(run, [11]),
        "need a target": lambda: flow_graph(run, []),
        "'lenght'.*share": lambda: prune(graph, "lenght"),
        "1 … 2.*got 3": lambda: prune(graph, most=3, least=0.5),
    }
    for said, attempt in attempts.items():
        with pytest.raises(ValueError, match=said):
            attempt()


def test_a_figure_over_a_text_can_be_read():
    tokens = ["<|bos|>", " Mila", " Toren", " lived", " Mila"]
    arcs = [figures.Arc("L1H2", 2, 4, 5), figures.Arc("L0H3", 1, 2, 2, below=True)]
    check_figures(figures.over_text(tokens, arcs, "title", {4: ("asks", figures.QUERY)}))


@pytest.mark.parametrize("least", [0.05, 0.2, 0.5])
def test_no_line_passes_behind_a_box(make_model, some_tokens, least):
    model = make_model(n_layers=3, d_mlp=8, positions="relative")
    graph = flow_graph(run_of(model, some_tokens[0]), [3], most=3, least=0.05)
    graph = prune(graph, most=3, least=least)
    places, lines = figures.layout(graph.nodes, graph.edges)
    assert len(set(places)) == len(places)
    for edge, line in zip(graph.edges, lines, strict=True):
        assert line[0] == (places[edge.source][0] + figures.SIDES[1], places[edge.source][1])
        assert line[-1] == (places[edge.into][0] + figures.SIDES[0], places[edge.into][1])
        points = Path(line).interpolated(40).vertices
        for i, (x, y) in enumerate(places):
            beside = abs(points[:, 0] - x) >= figures.WIDTH / 2 - 1e-6
            clear = abs(points[:, 1] - y) > figures.HEIGHT / 2
            assert i in (edge.source, edge.into) or (beside | clear).all()


def test_a_view_is_one_file_that_asks_for_nothing(make_model, some_tokens, tmp_path, unchecked):
    graph = flow_graph(run_of(make_model(d_mlp=8, positions="relative"), some_tokens[0]), [3, 4])
    view = figures.flow_view(graph, "title")
    view.data["tokens"][0] = "</script><b>"
    assert view.html().count("</script>") == 1  # a text cannot end the script
    size = view.save(tmp_path / "graph.html")
    content = (tmp_path / "graph.html").read_text(encoding="utf-8")
    assert size == len(content.encode()) < 300_000
    assert "//" not in content.replace("http://www.w3.org/2000/svg", "").replace(" // ", "")
    assert view.picture()[:4] == b"\x89PNG"
    data = as_data(prune(graph))
    with pytest.raises(ValueError, match="151 nodes.*prune further"):
        figures.flow_figure({**data, "nodes": [data["nodes"][0]] * 151}, "")
    check_figures(figures.flow_figure(data, "title"))


# ---- exercises ----

MODEL, AT = induction_model(10), 5  # the last token stands there before
TOKENS = torch.tensor([0, 5, 1, 7, 6, 8, 3, 9, 8])
ASTRAY = [[0.0, 1, 0], [2, 0, 0], [0, 0, 0], [0, 0, 0]]
ANSWERS = [
    ("21.1", ASTRAY, "solved"),
    ("21.1", torch.ones(4, 3), "not yet"),
    ("21.1", [[0.0, 0, 0], *ASTRAY[1:]], "not yet"),
    ("21.1", torch.zeros(4, 3), "not yet"),
    ("21.1", "all", "not yet"),
    ("21.2", lambda p, v, kept, rest: exercises.attend(p, v, ~kept, rest), "not yet"),
    ("21.2", lambda p, v, kept, rest: exercises.attend(p, v, kept, 0 * rest), "not yet"),
    ("21.2", lambda p, v, kept, rest: (p * kept) @ v, "not yet"),
    ("21.3", (((0, 0), AT + 1, AT),), "solved"),
    ("21.3", [((0, 0), AT + 1, AT)], "solved"),
    ("21.3", (((1, 0), 8, AT + 1),), "not yet"),  # known
    ("21.3", (((1, 0), 8, AT),), "not yet"),  # the last layer
    ("21.3", (((0, 0), 8, AT),), "not yet"),  # another place
    ("21.3", (((0, 0), AT + 1, 0),), "not yet"),  # the right place, another token
    ("21.3", (((0, 0), AT, AT + 1),), "not yet"),  # a later token
    ("21.3", [AT, AT + 1], "not yet"),
]


def a_line_is_missing():
    kept = torch.zeros(2, 1, len(TOKENS), len(TOKENS), dtype=torch.bool)
    kept[1, 0, 8, AT + 1] = True
    rests = {"zero": torch.zeros(2, 2, 1, MODEL.config.d_head)}

    def run_alone(kept, rest):
        return logits_alone(MODEL, TOKENS, kept, rest), None

    target = int(TOKENS[AT + 1])
    return {"run_alone": run_alone, "rests": rests, "kept": kept, "target": target}


GIVEN = {"21.3": a_line_is_missing}
