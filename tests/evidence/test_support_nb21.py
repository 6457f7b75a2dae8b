"""What notebook 21's evidence measures of flow graphs, each against a second way to it."""

import json

import pytest
import torch

import measure as tool
from aot_helpers.base.results import read
from aot_helpers.models.handmade import induction_model
from aot_helpers.text.tokenization import train_bpe
from chapters.nb21_information_flow import figures, flow
from chapters.nb21_information_flow.flow import run_of
from chapters.nb21_information_flow.flow_graph import flow_graph, prune
from chapters.nb21_information_flow.measure import Prompt
from edges_alone import logits_alone
from evidence.support.nb21 import ablation, alone, checks, heads, identities, masks, plots
from evidence.support.nb21 import edges as weighed
from evidence.support.nb21 import prompts as written
from evidence.support.nb21 import results as study
from figure_checks import check_figures
from tiny_models import tiny


@pytest.fixture(scope="module")
def tiny_gpt2():
    return tiny("gpt2", vocab_size=60, max_position_embeddings=32, num_hidden_layers=3)


def text_of(length: int, seed: int = 1):
    return torch.randint(60, (length,), generator=torch.Generator().manual_seed(seed))


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
    edges = weighed.last_edges(model, Prompt(tokens, target))
    kept = masks.graph_masks(graph)
    tried = [kept, *(masks.random_masks(*kept, seed=i) for i in range(5))]
    (only, *random), (said, *_) = (each.tolist() for each in masks.alone(edges, tried))
    assert said == target and only == pytest.approx(edges.aim, rel=1e-3)
    assert max(random) < 0.5 * edges.aim


@pytest.mark.parametrize("changes", [{"layer_norm": False}, {"d_mlp": 16}], ids=["ours", "MLPs"])
def test_keeping_all_edges_changes_nothing_and_keeping_none_leaves_the_rest(
    make_model, some_tokens, changes
):
    model = make_model(positions="relative", **changes)
    edges = weighed.last_edges(model, Prompt(some_tokens[0], 4))
    aim, _ = ablation.curves(edges, draws=2)
    assert aim.shape == (len(ablation.ORDERS) + 2, len(ablation.LEVELS))
    torch.testing.assert_close(aim[:, -1], torch.full((9,), edges.aim))
    torch.testing.assert_close(aim[:, 0], aim[:1, 0].expand(9))
    paper = ablation.on_paper(edges, ablation.ORDERS, ablation.LEVELS)
    torch.testing.assert_close(paper[:, -1], torch.full((7,), edges.aim))
    if not model.config.d_mlp:  # without norms and MLPs what is left is the embedding
        alone = edges.run.cache["embed"][0, -1] @ model.W_U
        torch.testing.assert_close(aim[0, 0], weighed.aim_of(alone, edges.prompt))


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
    with pytest.raises(ValueError, match="'largest first'.*smallest"):
        ablation.ordered(weights, "largest first")


def test_everything_is_measured_on_a_tiny_gpt2(tiny_gpt2):
    prompts = [Prompt(text_of(6, seed=i), 3 + i) for i in range(3)]
    prompts[0].tokens[2] = 3
    measured = [weighed.last_edges(tiny_gpt2, prompt) for prompt in prompts]
    found = study.examine(measured, draws=4)
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
    assert identities.largest_gap(graph) > 0.1


@pytest.mark.parametrize("kind", ["GPT-2", "attention only"])
def test_what_a_cut_changes_adds_up(tiny_gpt2, make_model, some_tokens, kind):
    model = tiny_gpt2 if kind == "GPT-2" else make_model(layer_norm=False, positions="relative")
    edges = weighed.last_edges(model, Prompt(some_tokens[0], 4))
    found = checks.after_cut(edges)
    parts = found["later heads"] + found["later MLPs"] + found["norm"] - found["direct"]
    assert found["cut"] - found["aim"] == pytest.approx(parts, abs=1e-3)
    assert found["to target"] == pytest.approx(found["direct"], abs=1e-4)
    against = checks.after_cut(weighed.last_edges(model, Prompt(some_tokens[0], 4, 2)))
    apart = against["to target"] - against["to rival"]
    assert apart == pytest.approx(against["direct"], abs=1e-4)
    names, _, aim, _ = checks.one_edge(edges, 2, 0)
    assert names == [*checks.ONE_EDGE, "random", "random"]
    assert found["cut"] == pytest.approx(aim[0].item(), abs=1e-3)
    if kind != "GPT-2":
        assert found["later MLPs"] == 0 and found["norm"] == pytest.approx(0, abs=1e-3)


def test_the_edges_of_a_graph_run_alone_as_from_the_weights(make_model, some_tokens):
    model = make_model(layer_norm=False, positions="relative")
    edges = [weighed.last_edges(model, Prompt(text, 4)) for text in some_tokens]
    kept = masks.graph_masks(prune(flow_graph(edges[0].run, [4]), most=1, least=1.0))
    rest = masks.means_of([each.run for each in edges[1:]]).values
    zero, _ = masks.alone(edges[0], [kept])
    mean, _ = masks.alone(edges[0], [kept], edges[1:])
    for expected, fill in ((zero, torch.zeros_like(rest)), (mean, rest)):
        logits = logits_alone(model, some_tokens[0], kept[0], fill)
        assert weighed.aim_of(logits, edges[0].prompt).item() == pytest.approx(
            expected.item(), abs=1e-4
        )


def test_graphs_are_run_alone_with_means(make_model, some_tokens):
    model = make_model(layer_norm=False, positions="relative")
    targets = [int(model(text[None])[0, -1].argmax()) for text in some_tokens]
    targets[0] = (targets[1] + 1) % 7  # two different ones at least
    prompts = [Prompt(*pair) for pair in zip(some_tokens, targets, strict=True)]
    measured = [weighed.last_edges(model, prompt) for prompt in prompts]
    found, first = study.graphs_at_means(measured), []
    for edges in measured:
        own, _ = masks.graph_masks(edges.graph)
        rest = masks.means_of([each.run for each in measured if each is not edges]).values
        first.append(int(logits_alone(model, edges.run.tokens, own, rest).argmax()))
    right = [a == b for a, b in zip(first, targets, strict=True)]
    assert found["with keys"]["first"] == pytest.approx(sum(right) / len(right))


def test_smaller_graphs_and_graphs_for_another_word_are_run_alone(make_model, some_tokens):
    model = make_model(layer_norm=False, positions="relative")
    targets = [int(model(text[None])[0, -1].argmax()) for text in some_tokens]
    prompts = [Prompt(*pair) for pair in zip(some_tokens, targets, strict=True)]
    measured = [weighed.last_edges(model, prompt) for prompt in prompts]
    few, other, right, says = alone.few_edges(measured), {}, [], []
    for i, edges in enumerate(measured):
        logits = edges.run.cache["logits"][0, -1]
        third = int(logits.argsort(descending=True)[2])
        mean = masks.means_of([each.run for each in measured if each is not edges]).values
        for word, found in ((targets[i], right), (third, says)):
            whole = flow_graph(edges.run, [word])
            graph = prune(whole, most=weighed.MOST, least=weighed.LEAST)
            if found is right:
                graph = prune(graph, least=0.5)
            kept, row = masks.graph_masks(graph)[0], []
            for rest in (torch.zeros_like(mean), mean):
                row.append(int(logits_alone(model, edges.run.tokens, kept, rest).argmax()))
            found.append([each == word for each in row])
    for i, rest in enumerate(alone.RESTS):
        share = sum(row[i] for row in right) / len(right)
        assert few["with keys"][rest] == pytest.approx(share)
        share = sum(row[i] for row in says) / len(says)
        other = alone.for_another_word(measured, n=3)[rest]
        assert other["its guess"] == pytest.approx(share)


def test_the_interval_of_a_share_is_wilsons():
    assert study.wilson_interval(0.3, 40) == pytest.approx([0.1807, 0.4543], abs=1e-4)
    assert study.wilson_interval(0.0, 12) == pytest.approx([0, 0.2425], abs=1e-4)


def test_a_difference_of_shares_is_as_of_independent_samples():
    low, high = study.difference_interval(0.675, 0.525, 40)
    assert (low + high) / 2 == pytest.approx(0.15)
    assert high - low == pytest.approx(2 * 1.96 * (0.4687 / 40) ** 0.5, abs=1e-4)


def test_the_second_guess_is_the_largest_beside_the_target(tiny_gpt2):
    tokens = text_of(6)
    first, second = run_of(tiny_gpt2, tokens).cache["logits"][0, -1].topk(2).indices.tolist()
    edges = weighed.last_edges(tiny_gpt2, Prompt(tokens, first))
    assert edges.second_guess == second
    assert weighed.last_edges(tiny_gpt2, Prompt(tokens, second)).second_guess == first
    found = checks.injected(edges)
    own, others = (masks.graph_masks(graph) for graph in (edges.graph, edges.graph_for(second)))
    none = torch.zeros_like(own[0])
    _, said = masks.alone(edges, [others, (none, own[1])])
    assert found["the second guess"] == (said[0] == second)
    assert found["its neurons"] == (said[1] == first)


def test_random_masks_have_as_many_edges_and_none_into_the_future(make_model, some_tokens):
    model = make_model(d_mlp=8, positions="relative")
    kept = masks.graph_masks(weighed.last_edges(model, Prompt(some_tokens[0], 4)).graph)
    drawn = masks.random_masks(*kept, seed=3)
    for old, new in zip(kept, drawn, strict=True):
        assert torch.equal(old.flatten(1).sum(1), new.flatten(1).sum(1))
    assert not drawn[0].triu(1).any() and not torch.equal(kept[0], drawn[0])


def test_another_share_knows_nothing_of_the_rival(tiny_gpt2):
    tokens = text_of(6)
    with_rival, without = (
        heads.head_facts(weighed.last_edges(tiny_gpt2, Prompt(tokens, 3, rival)), 7)
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
    tokenizer = train_bpe([written._GIVING.format(**pair)] * 3, 300)
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
    model = make_model(positions="relative", **changes)
    edges = weighed.last_edges(model, Prompt(some_tokens[0], 4))
    others = [weighed.last_edges(model, Prompt(text, 4)) for text in some_tokens[1:]]
    c, n_pos = model.config, some_tokens.shape[1]
    values = torch.rand(1, c.n_layers, c.n_heads, n_pos, n_pos) > 0.5
    neurons = torch.rand(1, c.n_layers, n_pos, c.d_mlp) > 0.5
    every = torch.ones_like(values[0]), torch.ones_like(neurons[0])
    aim, _ = masks.alone(edges, [every], others)
    assert aim.item() == pytest.approx(edges.aim, abs=1e-5)
    of = masks.means_of([each.run for each in others])
    with torch.no_grad():
        edits = masks.mean_edits(values, neurons, of)
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


def test_the_plot_can_be_read():
    orders = dict.fromkeys(plots.ORDER_COLORS, [[0.0, 0.5, 1.0]] * 2)
    names = {order: order for order in orders}
    curves = plots.curves({"a": ((0, 0.1, 1), orders), "b": ((0, 0.1, 1), orders)}, "t", names)
    curves.draw_without_rendering()
    check_figures(curves)


def test_a_graph_without_keys_answers_with_old_attention_and_lacks_the_edge_to_its_key():
    """The hand-set model: L1H0 copies from at + 1, which L0H0 marks by the token before it."""
    model, measured = induction_model(10), []
    for seed in range(4):
        tokens, target, at = identities.induction_text(10, 8, seed)
        measured.append(weighed.last_edges(model, Prompt(tokens, target)))
    kept = alone.with_attention_kept(measured)
    assert kept["graph"] == {"zero": 1, "mean": 1} and max(kept["random"].values()) <= 0.5
    found = alone.missing_edge(measured, n=2)
    assert found["best"] == 1 and found["second"] == 0 and found["p"] > found["p before"]
    with pytest.raises(ValueError, match="graphs are wrong alone, 5 are asked for"):
        alone.missing_edge(measured, n=5)
