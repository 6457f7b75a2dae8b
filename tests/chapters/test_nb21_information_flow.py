"""Flow graphs: edges add up to nodes, shares to logits; pruning, views, and what may go wrong."""

import json

import pytest
import torch

import measure as tool
from aot_helpers.base.results import read
from aot_helpers.models.handmade import induction_model
from aot_helpers.models.protocol import Head
from aot_helpers.reading import paths
from aot_helpers.text.tokenization import train_bpe
from chapters.nb21_information_flow import (
    ablation,
    checks,
    exercises,
    figures,
    flow,
    heads,
    identities,
    means,
    templates,
)
from chapters.nb21_information_flow import results as study
from chapters.nb21_information_flow.flow import Node, run_of, sum_of, vector_of
from chapters.nb21_information_flow.flow_graph import (
    MEASURES,
    as_data,
    flow_graph,
    logit_directions,
    prune,
)
from chapters.nb21_information_flow.templates import Prompt
from figure_checks import check_figures
from tiny_models import tiny

KINDS = {
    "shipped": {"layer_norm": False, "positions": "relative"},
    "shortformer": {},
    "with MLPs": {"d_mlp": 16, "positions": "standard"},
    "no positions": {"positions": "none", "n_layers": 3},
}
every_kind = pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)


@pytest.fixture(scope="module")
def tiny_gpt2():
    return tiny("gpt2", vocab_size=60, max_position_embeddings=32, num_hidden_layers=3)


def text_of(length: int, seed: int = 1):
    return torch.randint(60, (length,), generator=torch.Generator().manual_seed(seed))


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
    tokens = text_of(7)
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
    model = make_model(layer_norm=False)
    graph = flow_graph(run_of(model, some_tokens[0]), [3], most=99, least=1e-9, keys=False)
    into, out = {}, {}
    for edge in graph.edges:
        into[edge.into] = into.get(edge.into, 0) + edge.shares[0]
        out[edge.source] = out.get(edge.source, 0) + edge.shares[0]
    assert into[0] == pytest.approx(1 if graph.logits[0] > 0 else -1, abs=1e-4)
    for i, node in enumerate(graph.nodes):
        if node.kind in ("head", "value"):
            assert into[i] == pytest.approx(out[i], abs=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_of_the_handmade_model_the_graph_is_the_known_circuit(seed):
    model = induction_model(10)
    tokens, target, at = identities.induction_text(10, 8, seed)
    assert tokens[at] == tokens[-1] and tokens[at + 1] == target
    whole = flow_graph(run_of(model, tokens), [target])
    graph = prune(whole)
    assert identities.circuit_errors(graph, at) == 0
    assert {n.pos for n in graph.nodes} == {at, at + 1, len(tokens) - 1}
    # What is long and says nothing of the target is kept by the norm.
    assert identities.circuit_errors(prune(whole, "norm"), at) > 0
    edges = ablation.last_edges(model, Prompt(tokens, target))
    kept = checks.graph_masks(graph)
    masks = [kept, *(checks.random_masks(*kept, seed=i) for i in range(5))]
    (only, *random), (first, *_) = (each.tolist() for each in checks.alone(model, edges, masks))
    assert first and only == pytest.approx(edges.aim, rel=1e-3)
    assert max(random) < 0.5 * edges.aim


def test_pruning_keeps_the_strongest_and_never_more_than_asked(make_model, some_tokens):
    graph = flow_graph(run_of(make_model(d_mlp=8), some_tokens[0]), [3, 4])
    for by in MEASURES:
        sizes = []
        for least in (0.1, 0.3, 1.0):
            small = prune(graph, by, 1, 2, least)
            sizes.append(len(small.edges))
            parts = [e.into for e in small.edges if e.kind == "part"]
            assert max(parts.count(i) for i in parts) <= 2
            assert small.nodes[0] == graph.nodes[0] and len(small.vectors) == len(small.nodes)
        assert sizes[0] >= sizes[1] >= sizes[2] >= 1
    one = prune(graph, "norm", 0, 1, 1.0)
    found = sum_of(graph.run, graph.nodes[0])
    (first,) = [e for e in one.edges if e.into == 0]
    assert one.nodes[first.source] == found.sources[found.parts.norm(dim=-1).argmax()]


def test_bad_input_is_named_with_its_remedy(make_model, some_tokens):
    model, tokens = make_model(), some_tokens[0]
    run = run_of(model, tokens)
    graph = flow_graph(run, [1], most=2, least=0.3)
    smeared = run_of(make_model(smeared_keys=True), tokens)
    attempts = {
        r"range\(1, 1\).*give range\(first": lambda: run_of(model, tokens, range(1, 1)),
        r"range\(1, 4\).*give range\(first": lambda: run_of(model, tokens, range(1, 4)),
        "position 9.*0 … 6": lambda: run_of(model, tokens, pos=9),
        "no token 11.*0 … 10": lambda: flow_graph(run, [11]),
        "need a target": lambda: flow_graph(run, []),
        "'lenght'.*share": lambda: prune(graph, "lenght"),
        "0 … 0.*got 1": lambda: prune(graph, target=1, most=2, least=0.5),
        "1 … 2.*got 0, 3": lambda: prune(graph, most=3, least=0.5),
        "unfold no keys": lambda: flow_graph(smeared, [1], least=1e-6),
        "'largest first'.*smallest": lambda: ablation.ordered(torch.rand(3, 2, 4), "largest first"),
    }
    for said, attempt in attempts.items():
        with pytest.raises(ValueError, match=said):
            attempt()


@pytest.mark.parametrize("changes", [{"layer_norm": False}, {"d_mlp": 16}], ids=["ours", "MLPs"])
def test_keeping_all_edges_changes_nothing_and_keeping_none_leaves_the_rest(
    make_model, some_tokens, changes
):
    model = make_model(**changes)
    edges = ablation.last_edges(model, Prompt(some_tokens[0], 4))
    aim, _ = ablation.curves(model, edges, draws=2)
    assert aim.shape == (len(ablation.ORDERS) + 2, len(ablation.LEVELS))
    torch.testing.assert_close(aim[:, -1], torch.full((9,), edges.aim))
    torch.testing.assert_close(aim[:, 0], aim[:1, 0].expand(9))
    paper = ablation.on_paper(edges, ablation.ORDERS, ablation.LEVELS)
    torch.testing.assert_close(paper[:, -1], torch.full((7,), edges.aim))
    if not model.config.d_mlp:  # without norms and MLPs what is left is the embedding
        alone = edges.run.cache["embed"][0, -1] @ model.W_U
        torch.testing.assert_close(aim[0, 0], ablation.aim_of(alone, edges.prompt))


def test_orders_are_what_they_say():
    weights = torch.tensor([[[[0.9, 0.1], [0.6, 0.4]]], [[[1.0, 2.0], [4.0, 3.0]]]])
    weights = torch.cat([weights, -weights[1:]])
    per_step = ablation.ordered(weights, "coefficient per step")
    assert per_step.tolist() == [[[0, 3], [1, 2]]]
    assert ablation.ordered(weights, "smallest first").tolist() == [[[3, 0], [2, 1]]]
    assert ablation.ordered(weights, "coefficient overall").tolist() == [[[0, 3], [1, 2]]]
    for order in ("norm overall", "share overall"):
        assert ablation.ordered(weights, order).tolist() == [[[3, 2], [0, 1]]]
    assert ablation.ordered(weights, "share per step").tolist() == [[[3, 1], [0, 2]]]


def test_random_masks_have_as_many_edges_and_none_into_the_future(make_model, some_tokens):
    model = make_model(d_mlp=8)
    graph = prune(flow_graph(run_of(model, some_tokens[0]), [4]), least=0.1, most=4)
    kept = checks.graph_masks(graph)
    drawn = checks.random_masks(*kept, seed=3)
    for old, new in zip(kept, drawn, strict=True):
        assert torch.equal(old.flatten(1).sum(1), new.flatten(1).sum(1))
    assert not drawn[0].triu(1).any() and not torch.equal(kept[0], drawn[0])


def test_everything_is_measured_on_a_tiny_gpt2(tiny_gpt2):
    prompts = [Prompt(text_of(6, seed=i), 3 + i) for i in range(3)]
    prompts[0].tokens[2] = 3
    found = study.examine(tiny_gpt2, prompts, draws=4)
    assert found["swapped"] == 0 and found["largest gap"] < 1e-4
    assert found["strongest"]["n"] >= 1 and len(found["recovered"]) == len(found["rows"]) == 11
    graphs = found["graphs"]
    assert graphs["nothing"]["recovered"] == 0 and graphs["with keys"]["values"] >= 1
    by_mean = found["graphs at means"]
    assert by_mean["nothing"]["recovered"] == 0 and 0 <= by_mean["the second guess"] <= 1
    assert all(0 <= each["kept"] <= each["first"] <= 1 for each in graphs.values())
    low, high = found["spread"][0][3]
    assert low <= study.row(found, "coefficient per step", found["levels"][3]) <= high
    assert study.row(found, "random", 1.0) == pytest.approx(1)
    assert study.nearer(found, "share overall", "share overall", 0.1) == 0
    assert identities.gelu_signs(tiny_gpt2, prompts) == 0
    json.dumps(found)


def test_a_sum_with_a_wrong_part_does_not_close(tiny_gpt2, monkeypatch):
    tokens = text_of(7)
    graph = flow_graph(run_of(tiny_gpt2, tokens), [3])
    assert identities.largest_gap(graph) < 1e-4
    whole = flow._components

    def wrong(run, layer, pos):
        nodes, parts = whole(run, layer, pos)
        return nodes, torch.cat([7 - 3 * parts[:1], parts[1:]])

    monkeypatch.setattr(flow, "_components", wrong)
    graph.run.known.clear()  # the right sums
    assert identities.largest_gap(graph) > 0.1


@pytest.mark.parametrize("kind", ["GPT-2", "attention only"])
def test_what_a_cut_changes_adds_up(tiny_gpt2, make_model, some_tokens, kind):
    model = tiny_gpt2 if kind == "GPT-2" else make_model(layer_norm=False)
    edges = ablation.last_edges(model, Prompt(some_tokens[0], 4))
    found = checks.after_cut(model, edges)
    parts = found["later heads"] + found["later MLPs"] + found["norm"] - found["direct"]
    assert found["cut"] - found["aim"] == pytest.approx(parts, abs=1e-3)
    assert found["to target"] == pytest.approx(found["direct"], abs=1e-4)
    against = checks.after_cut(model, ablation.last_edges(model, Prompt(some_tokens[0], 4, 2)))
    apart = against["to target"] - against["to rival"]
    assert apart == pytest.approx(against["direct"], abs=1e-4)
    names, _, aim, _ = checks.one_edge(model, edges, 2, 0)
    assert names == [*checks.ONE_EDGE, "random", "random"]
    assert found["cut"] == pytest.approx(aim[0].item(), abs=1e-3)
    if kind != "GPT-2":
        assert found["later MLPs"] == 0 and found["norm"] == pytest.approx(0, abs=1e-3)


def test_the_readers_page_runs_the_edges_of_a_graph_alone(make_model, some_tokens):
    model = make_model(layer_norm=False)
    edges = [ablation.last_edges(model, Prompt(text, 4)) for text in some_tokens]
    kept = checks.graph_masks(prune(flow_graph(edges[0].run, [4]), most=1, least=1.0))
    rest = means.means_of([each.run for each in edges[1:]]).values
    zero, _ = checks.alone(model, edges[0], [kept])
    mean, _ = means.alone_at_means(model, edges[0], [kept], edges[1:])
    for expected, fill in ((zero, torch.zeros_like(rest)), (mean, rest)):
        edits = means.attend_edits(exercises.attend, kept[0], fill)
        with torch.no_grad():
            logits = model(some_tokens[:1], edits=edits)[0, -1]
        assert ablation.aim_of(logits, edges[0].prompt).item() == pytest.approx(
            expected.item(), abs=1e-4
        )


def test_graphs_are_run_alone_with_means(make_model, some_tokens):
    model = make_model(layer_norm=False)
    targets = [int(model(text[None])[0, -1].argmax()) for text in some_tokens]
    targets[0] = (targets[1] + 1) % 7  # two different ones at least
    prompts = [Prompt(*pair) for pair in zip(some_tokens, targets, strict=True)]
    measured = [ablation.last_edges(model, prompt) for prompt in prompts]
    found, first = study.graphs_at_means(model, measured), []
    for i, edges in enumerate(measured):
        (name, own), *_, (last, _) = study.graphs_of(measured, i, draws=2)
        assert (name, last) == ("with keys", study.RANDOM)
        assert torch.equal(own, checks.graph_masks(study.pruned(edges))[0])
        rest = means.means_of([each.run for each in measured if each is not edges]).values
        edits = means.attend_edits(exercises.attend, own, rest)
        with torch.no_grad():
            first.append(int(model(edges.run.tokens[None], edits=edits)[0, -1].argmax()))
    right = [a == b for a, b in zip(first, targets, strict=True)]
    assert found["with keys"]["first"] == pytest.approx(sum(right) / len(right))


def test_the_interval_of_a_share_is_wilsons():
    assert study.share_interval(0.3, 40) == pytest.approx((0.1807, 0.3, 0.4543), abs=1e-4)
    assert study.share_interval(0.0, 12) == pytest.approx((0, 0, 0.2425), abs=1e-4)


def test_a_difference_of_shares_is_as_of_independent_samples():
    low, high = study.difference_interval(0.675, 0.525, 40)
    assert (low + high) / 2 == pytest.approx(0.15)
    assert high - low == pytest.approx(2 * 1.96 * (0.4687 / 40) ** 0.5, abs=1e-4)


def test_a_graph_is_drawn_once_and_its_size_is_that_of_its_masks(tiny_gpt2):
    texts = [text_of(6, seed) for seed in (1, 2)]
    for text in texts:
        edges = ablation.last_edges(tiny_gpt2, Prompt(text, 5))
        for target in (None, 7):
            graph = study.pruned(edges, target=target)
            assert study.pruned(edges, target=target) is graph
            sizes = [int(mask.sum()) for mask in checks.graph_masks(graph)]
            assert checks.n_kept(graph) == sum(sizes)
        assert study.pruned(edges) is study.pruned(edges, target=5)


def test_figures_of_runs_alone_can_be_read():
    runs = {"whole": [0.1, 0.9], "alone": [0.5, 0.5]}
    counts = {"rest at zero": 3, "rest at its mean": 2}
    says = {"says the word it was drawn for": 1, "says the model’s own word": 4}
    check_figures(
        figures.attention_alone(runs, ["a", "b"], "title", "L1H2"),
        figures.by_size({"graph": counts}, 4, "title"),
        figures.word_or_answer({"a": {"its own word": says}}, 4, "title"),
    )


def test_the_second_guess_is_the_largest_beside_the_target(tiny_gpt2):
    tokens = text_of(6)
    first, second = run_of(tiny_gpt2, tokens).cache["logits"][0, -1].topk(2).indices.tolist()
    edges = ablation.last_edges(tiny_gpt2, Prompt(tokens, first))
    assert checks.second_guess(edges) == second
    assert checks.second_guess(ablation.last_edges(tiny_gpt2, Prompt(tokens, second))) == first
    n_pos, c = len(tokens), tiny_gpt2.config
    every = (
        torch.ones(c.n_layers, c.n_heads, n_pos, n_pos, dtype=torch.bool),
        torch.ones(c.n_layers, n_pos, c.d_mlp, dtype=torch.bool),
    )
    found = checks.injected(tiny_gpt2, edges, second, every, every)
    assert found["the target"] == 1 and found["the second guess"] == 0  # the whole run
    assert found["its neurons"] == found["all neurons"]


def test_another_share_knows_nothing_of_the_rival(tiny_gpt2):
    tokens = text_of(6)
    with_rival, without = (
        heads.head_facts(tiny_gpt2, ablation.last_edges(tiny_gpt2, Prompt(tokens, 3, rival)), 7)
        for rival in (5, None)
    )
    torch.testing.assert_close(with_rival["other share"], without["other share"])
    assert not torch.allclose(with_rival["share"], without["share"])


def test_a_model_without_answers_is_not_measured(tiny_gpt2, monkeypatch):
    monkeypatch.setattr(study, "written_prompts", lambda model: ([], 20))
    with pytest.raises(ValueError, match="tiny answers 0 of 20 prompts; 2 are needed"):
        study.pretrained(tiny_gpt2, "tiny")


def test_a_folder_of_a_gpt2_fills_the_file_that_the_evidence_shows(tmp_path, monkeypatch, capsys):
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path / "gpt2"
    pair = {"a": "Mary", "b": "John", "place": "store", "thing": "ring"}
    tokenizer = train_bpe([templates._GIVING.format(**pair)] * 3, 300)
    shape = dict(vocab_size=tokenizer.d_vocab, n_positions=64, n_embd=16, n_layer=2, n_head=2)
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0)).save_pretrained(folder)
    tokenizer.save(folder / "tokenizer.json")

    def three(model):  # what it says itself, as it knows no fact
        texts = [torch.arange(i, i + 6) for i in range(4, 7)]
        both = [model(text[None])[0, -1].topk(2).indices.tolist() for text in texts]
        return [Prompt(text, *two) for text, two in zip(texts, both, strict=True)], 20

    monkeypatch.setattr(study, "written_prompts", three)
    tool.pretrained([str(folder)], 0, ["21"], tmp_path)
    assert "notebook 21" in capsys.readouterr().out
    found, smol = read("21-gpt2", tmp_path), read("pretrained/21-smollm2")
    assert set(smol) - set(found) == {"gate signs"}  # GPT-2's MLPs have no gates
    assert found["n_prompts"] == 3 and found["graphs at means"]["nothing"]["recovered"] == 0
    still = figures.flow_figure(found["still"], "t")
    assert figures.FlowView(found["graph"], still, *study.STILL)


@pytest.mark.parametrize("changes", [{"layer_norm": False}, {"d_mlp": 16}], ids=["ours", "MLPs"])
def test_what_is_dropped_is_at_its_mean(make_model, some_tokens, changes):
    model = make_model(**changes)
    edges = ablation.last_edges(model, Prompt(some_tokens[0], 4))
    others = [ablation.last_edges(model, Prompt(text, 4)) for text in some_tokens[1:]]
    c, n_pos = model.config, some_tokens.shape[1]
    values = torch.rand(1, c.n_layers, c.n_heads, n_pos, n_pos) > 0.5
    neurons = torch.rand(1, c.n_layers, n_pos, c.d_mlp) > 0.5
    every = torch.ones_like(values[0]), torch.ones_like(neurons[0])
    aim, _ = means.alone_at_means(model, edges, [every], others)
    assert aim.item() == pytest.approx(edges.aim, abs=1e-5)
    of = means.means_of([each.run for each in others])
    with torch.no_grad():
        edits = means.mean_edits(values, neurons, of)
        _, cache = model.run_with_cache(some_tokens[:1], edits=edits)
    a, v = edges.run.cache["L0.pattern"][0], edges.run.cache["L0.v"][0]  # the first layer's
    rows = torch.cat([each.run.cache["L0.v"][0, 1:] for each in others])
    first = torch.stack([each.run.cache["L0.v"][0, 0] for each in others]).mean(dim=0)
    for q in range(n_pos):
        for h in range(c.n_heads):
            z = sum(
                a[h, q, k]
                * (v[k, h] if values[0, 0, h, q, k] else (first if k == 0 else rows.mean(dim=0))[h])
                for k in range(q + 1)
            )
            torch.testing.assert_close(cache["L0.z"][0, q, h], z, atol=1e-5, rtol=1e-4)
    if c.d_mlp:
        dropped = ~neurons[0, 0]
        mean = of.neurons[0][[0] + [1] * (n_pos - 1)]
        torch.testing.assert_close(cache["L0.mlp_hidden"][0][dropped], mean[dropped])


def assert_no_line_meets_a_box(places, routes, edges):
    boxes = [(figures.COLUMN * x, -figures.ROW * y) for x, y in places]
    for (source, into, *_), route in zip(edges, routes, strict=True):
        way = [
            (figures.COLUMN * x, -figures.ROW * y)
            for x, y in (places[source], *route, places[into])
        ]
        line = figures.line_path(way).interpolated(40).vertices
        for i in set(range(len(boxes))) - {source, into}:
            beside = abs(line[:, 0] - boxes[i][0]) >= figures.WIDTH / 2 - 1e-6
            clear = abs(line[:, 1] - boxes[i][1]) > figures.HEIGHT / 2
            assert (beside | clear).all()


@pytest.mark.parametrize("least", [0.05, 0.2, 0.5])
def test_no_line_passes_behind_a_box(make_model, some_tokens, least):
    model = make_model(n_layers=3, d_mlp=8)
    graph = flow_graph(run_of(model, some_tokens[0]), [3], most=3, least=0.05)
    graph = prune(graph, most=3, least=least)
    places, routes = figures.layout(graph.nodes, graph.edges)
    assert len(set(places)) == len(places)
    assert_no_line_meets_a_box(places, routes, graph.edges)
    for edge, route in zip(graph.edges, routes, strict=True):
        columns = [x for x, _ in (places[edge.source], *route, places[edge.into])]
        assert columns == [columns[0] + i for i in range(len(columns))]  # none is left out


def test_a_view_is_one_file_that_asks_for_nothing(make_model, some_tokens, tmp_path, unchecked):
    graph = flow_graph(run_of(make_model(d_mlp=8), some_tokens[0]), [3, 4])
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
    orders = dict.fromkeys(figures.ORDER_COLORS, [[0.0, 0.5, 1.0]] * 2)
    names = {order: order for order in orders}
    curves = figures.curves({"a": ((0, 0.1, 1), orders), "b": ((0, 0.1, 1), orders)}, "t", names)
    curves.draw_without_rendering()
    check_figures(figures.flow(graph, "title"), curves)


# ---- exercises ----

MODEL, (TOKENS, _, AT) = induction_model(10), identities.induction_text(10, 8, 1)
ASTRAY = [[0.0, 1, 0], [2, 0, 0], [0, 0, 0], [0, 0, 0]]
ANSWERS = [
    ("21.1", exercises.unfold, "solved"),
    ("21.1", lambda x, v, o, a: x @ v @ o, "not yet"),
    ("21.1", lambda x, v, o, a: exercises.unfold(x, v, o, a).sum(0), "not yet"),
    ("21.1", lambda x, v, o, a: a * (x @ v @ o), "not yet"),
    ("21.2", exercises.attend, "solved"),
    ("21.2", lambda p, v, kept, rest: exercises.attend(p, v, ~kept, rest), "not yet"),
    ("21.2", lambda p, v, kept, rest: exercises.attend(p, v, kept, 0 * rest), "not yet"),
    ("21.2", lambda p, v, kept, rest: (p * kept) @ v, "not yet"),
    ("21.3", [((0, 0), AT + 1, AT), ((1, 0), 8, AT + 1)], "solved"),
    ("21.3", [((0, 0), AT + 1, AT), ((1, 0), 8, AT)], "not yet"),
    ("21.3", [((1, 0), 8, 0), ((1, 0), 8, AT)], "not yet"),
    ("21.3", [((0, 0), AT + 1, AT), ((0, 0), 8, AT)], "not yet"),
    ("21.3", [((0, 0), AT, AT + 1), ((1, 0), 8, AT + 1)], "not yet"),
    ("21.3", [AT, AT + 1], "not yet"),
    ("21.3", [((1, 0), 8, AT + 1)], "not yet"),
    ("21.4", ASTRAY, "solved"),
    ("21.4", torch.ones(4, 3), "not yet"),
    ("21.4", [[0.0, 0, 0], *ASTRAY[1:]], "not yet"),
    ("21.4", torch.zeros(4, 3), "not yet"),
    ("21.4", "all", "not yet"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(verdict, number, answer, expected):
    run = run_of(MODEL, TOKENS)
    zero = torch.zeros_like(means.means_of([run]).values)
    given = {"run": run, "rests": {"zero": zero}} if number == "21.3" else {}
    assert verdict(number, answer, **given) == expected
