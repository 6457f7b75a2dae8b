"""Notebook 20's prompts, readings and removals, each against a second way to the same number."""

import json

import pandas
import pytest
import torch

import measure as tool
from aot_helpers.base import results as files
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.pretrained import load_pretrained
from aot_helpers.models.protocol import Head, all_heads
from aot_helpers.reading.interventions import ablate
from aot_helpers.reading.logit_lens import lens, top_tokens
from aot_helpers.text.corpora import load_corpus
from aot_helpers.text.tokenization import train_bpe
from chapters.nb20_logit_lens import (
    figures,
    measure,
    oslo,
    patching,
    readings,
    removals,
    results,
    templates,
)
from chapters.nb20_logit_lens.stream_vectors import read
from chapters.nb20_logit_lens.templates import Prompts
from figure_checks import check_figures


@pytest.fixture
def prompts():
    tokens = torch.randint(11, (6, 8), generator=torch.Generator().manual_seed(3))
    last = torch.tensor([7, 4, 5, 7, 3, 6])
    return Prompts(tokens, last, torch.zeros(6, dtype=torch.long))


@pytest.fixture
def run(make_model, prompts):
    """A tiny model, its readings and its undisturbed run."""

    def make(**changes):
        model = make_model(**changes).requires_grad_(False)
        read_all = readings.read_prompts(model, prompts, k=3)
        return model, read_all, removals.clean_run(model, prompts)

    return make


@pytest.fixture(scope="module")
def named(stories):
    return templates.some(templates.named(stories), slice(0, 40, 5))


@pytest.fixture(scope="module")
def asked(stories):
    encoded = (
        stories.tokenizer.encode(templates.NAMED.format(a, b, a), bos=True)
        for a, b in (("Deko", "Balis"), ("Tavi", "Zorin"))
    )
    return {"model": stories} | dict(zip(("tokens", "other"), encoded, strict=True))


@pytest.mark.parametrize("changes", [{"layer_norm": False}, {"layer_norm": True, "d_mlp": 16}])
def test_readings_are_those_of_one_prompt_alone(run, prompts, changes):
    model, found, clean = run(**changes)
    for row in (1, 4):  # shorter than the longest: the padding must not matter
        text = prompts.tokens[row, : prompts.last[row] + 1]
        logits, cache = model.run_with_cache(text[None])
        torch.testing.assert_close(clean.logits[row], logits[0, -1])
        for name in ("head", "query", "head without W_O"):
            mine = read(model, cache, name, Head(1, 1))[0, -1]
            assert torch.equal(found.ids[name][row, 1, 1], top_tokens(lens(model, mine), 3))
        key = 1 + int(cache["L1.pattern"][0, 1, -1, 1:].argmax())  # never the first token
        value = read(model, cache, "value", Head(1, 1))[0, key]
        assert torch.equal(found.ids["value"][row, 1, 1, 0], top_tokens(lens(model, value), 3))
        written = lens(model, cache["L1.attn_out"][0, -1])
        said = lens(model, read(model, cache, "head", Head(1, 0))[0, -1])
        shared = readings.shared(found.ids, "head", "attention output")
        in_common = readings.overlap(*(top_tokens(x, 3) for x in (said, written)))
        assert shared[row, 1, 0] == in_common
        assert torch.equal(found.ids["final"][row, 0], top_tokens(logits[0, -1], 3))


def test_pairs_with_another_prompt_are_those_of_the_next_row(run):
    ids = run()[1].ids
    other = readings.shared(ids, "head", "attention output", other_prompt=True)
    assert other[0, 1, 0] == readings.overlap(ids["head"][0, 1, 0], ids["attention output"][-1, 1])


def test_a_removal_at_the_last_position_is_an_ablation_of_the_last_layer(run, prompts):
    model, _, clean = run(layer_norm=True, d_mlp=16)
    z = clean.z[:, 1].clone()
    z[:, 1] = 0  # what the head writes elsewhere reaches no other position
    left = removals.run_with(model, prompts, 1, z)
    for row in (0, 2):
        text = prompts.tokens[row, : prompts.last[row] + 1][None]
        after = model(text, edits=ablate(model, [Head(1, 1)], by="zero"))[0, -1]
        torch.testing.assert_close(left[row], removals.centered(after))


def test_values_add_up_to_the_head(run):
    clean = run(layer_norm=False)[2]
    torch.testing.assert_close(clean.by_key.sum(dim=3), clean.z)


def test_other_words_are_the_next_prompts_and_not_ones_own():
    ids, values = torch.tensor([[1, 2, 3], [3, 4, 5]]), torch.arange(18.0).view(2, 9)
    assert removals.without(ids.roll(1, dims=0), ids).tolist() == [[-1, 4, 5], [1, 2, -1]]
    fall = removals.specific_fall(values, ids)
    assert fall["words"].tolist() == [2, 13] and fall["other words"].tolist() == [4.5, 10.5]
    assert removals.mean_of(values, torch.full((2, 1), -1)).isnan().all()


def test_random_vectors_have_the_norms_of_the_real_ones(run):
    model, _, clean = run(layer_norm=False)
    draw, z = torch.Generator().manual_seed(0), clean.z[:, 1]
    size = readings.written_by(model, 1, z).norm(dim=-1)
    for make in removals.random_z, patching.shuffled_z:
        made = readings.written_by(model, 1, make(model, 1, z, draw))
        torch.testing.assert_close(made.norm(dim=-1), size)
    made = patching.shuffled_z(model, 1, z, draw)
    for head in range(2):  # the same directions, in another order
        mine, theirs = (each[:, head] / each[:, head].norm(dim=-1)[:, None] for each in (z, made))
        assert (theirs @ mine.T).max(dim=1).values == pytest.approx([1.0] * 6, abs=1e-5)


def test_a_random_query_meets_its_own_favorite_key(run, prompts):
    """Both readings lie among zeros at the place of their head."""
    model, found, _ = run()
    for said in readings.LOTS:
        assert found.ids[f"query{said}"].shape == found.ids["query"].shape
    _, cache = model.run_with_cache(prompts.tokens)
    layer, draw = readings.Layer(model, cache, prompts, 1, 3), torch.Generator().manual_seed(0)
    found = readings._random_query(layer, draw, " by lot")["key of query by lot"]
    query = torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0))
    for row, last in enumerate(prompts.last):  # the longest query does not change a favorite
        keys = cache["L1.k"][row, 1 : last + 1, 1]
        best = 1 + int((keys @ query[row, 1]).argmax())
        key = read(model, cache, "key without W_Q", Head(1, 1))[row, best]
        assert torch.equal(found[row, 1], top_tokens(lens(model, key), 3))


def test_of_a_last_layer_without_norm_any_vector_takes_its_words_along(run):
    """What makes a random vector's removal arithmetic: the words fall by what it says."""
    model, _, clean = run(layer_norm=False)
    at, put = torch.zeros(6, dtype=torch.long), clean.z[:, 1, 0].roll(1, dims=0)
    fall = removals._fall(model, clean, 1, at, put, torch.zeros_like(put))
    says = removals.centered(lens(model, put @ model.layer_weights(1).W_O[0]))
    torch.testing.assert_close(fall, says)
    found = removals.random_head_off(model, clean, 1, k=3)
    assert (found["head, words"] > 0).all()  # the words are those that it says


def test_other_prompts_have_other_answers():
    draw, answers = torch.Generator().manual_seed(0), torch.tensor([5, 5, 6, 7, 6])
    found = patching.with_other_answers(answers, 2, draw)
    for row, others in enumerate(found):
        assert len({int(answers[row]), *answers[others].tolist()}) == 3
    alone = patching.with_other_answers(torch.tensor([5, 5]), 1, draw)
    assert alone.tolist() == [[-1], [-1]]


def test_a_patched_head_brings_what_it_wrote_elsewhere(run):
    model, _, clean = run(layer_norm=False)
    clean = clean._replace(logits=torch.eye(11)[torch.arange(6) % 4] * 9)  # four answers
    found = patching.patched(model, clean, 1)
    assert found["brought"].isfinite().all()
    one, two = (found[f"{which}, brought"] for which in patching.PATCHED)
    torch.testing.assert_close(found["brought"], one - two)


def test_names_move_with_the_head_that_says_them(stories, named):
    moved = patching.names_patched(stories, named)
    random = patching.names_patched(stories, named, removals.random_z)
    assert moved["says it"].mean() > 0.5 > random["says it"].mean()
    assert moved["others"].mean() < 0.5
    each = torch.stack([moved[f"L1H{head}"] for head in range(4)])
    torch.testing.assert_close(each.sum(dim=0), moved["says it"] + 3 * moved["others"])
    assert (templates.predictions(stories, named) == named.answers).all()


def test_the_lens_foretells_a_patch_of_a_last_layer_without_norm(stories, named, asked, run):
    assert patching.prediction_error(stories, named, 2) < 1e-4
    model, _, clean = run(layer_norm=True)  # with a norm it does not
    assert patching.prediction_error(model, clean.prompts, 0) > 1e-3
    runs = [stories.run_with_cache(asked[each][None]) for each in ("tokens", "other")]
    here, there = (lens(stories, read(stories, c, "head", Head(1, 2))[0, -1]) for _, c in runs)
    after = patching.patched_logits(stories, asked["tokens"], asked["other"], Head(1, 2))
    torch.testing.assert_close(after, runs[0][0][0, -1] - here + there, atol=1e-4, rtol=0)


def test_heads_are_patched_from_the_other_prompt(stories, named):
    other = torch.arange(len(named.last)).roll(1)
    texts = [row[: last + 1] for row, last in zip(named.tokens, named.last, strict=True)]
    after = patching.run_patched(stories, named, other, Head(1, 2))
    alone = patching.patched_logits(stories, texts[0], texts[other[0]], Head(1, 2))
    torch.testing.assert_close(after[0], removals.centered(alone), atol=1e-4, rtol=0)


def test_facts_about_one_thing_are_counted_once(stories):
    asked = (
        "The capital of Norway is",
        "The capital of Norway is the city of",
        "People in Peru speak",
    )
    texts = [stories.tokenizer.encode(text) for text in asked]
    assert templates.subjects(stories, templates.gather(texts, [0, 0, 0])) == 2


def test_prompts_that_begin_alike_stand_apart():
    begin = torch.tensor([[1, 1], [1, 1], [1, 1], [2, 1], [2, 2], [2, 2]])
    order = templates.apart(Prompts(begin, torch.ones(6, dtype=torch.long), torch.arange(6)))
    assert sorted(order.answers.tolist()) == list(range(6))
    assert not (order.tokens == order.tokens.roll(1, dims=0)).all(dim=1).any()


def test_a_k_too_large_is_named(make_model, prompts):
    with pytest.raises(ValueError, match="k must be .* 11, got 50"):
        readings.read_prompts(make_model(), prompts)


def test_prompts_end_where_the_text_goes_on(stories):
    texts = load_corpus("stories", "test", quiet=True).texts[:60]
    found = templates.windows(stories, texts, 10)
    encoded = [stories.tokenizer.encode(text, bos=True) for text in texts]
    for row, last in enumerate(found.last):
        start = found.tokens[row, : last + 1]
        (whole,) = [e for e in encoded if torch.equal(e[: last + 1], start)]
        assert whole[last + 1] == found.answers[row]
    kinds = templates.by_kind(stories, texts, 12, 5)
    said = {kind: templates.predictions(stories, each) for kind, each in kinds.items()}
    assert (said["right"] == kinds["right"].answers).all()
    assert (said["wrong"] != kinds["wrong"].answers).all()
    with pytest.raises(ValueError, match="answers .* as they go on: at least 4, "):
        templates.by_kind(stories, texts[:4])
    with pytest.raises(ValueError, match="give longer texts"):
        templates.windows(stories, ["Too short."], 10)


def test_a_summary_is_the_mean_with_an_interval():
    values = torch.tensor([[1.0, 2.0], [3.0, torch.nan], [5.0, 6.0]])
    found = results.summary(values)
    assert found["layers"] == [3.0, 4.0] and found["mean"] == pytest.approx(3.333, abs=1e-3)
    assert found["low"][0] <= 3 <= found["high"][0]


@pytest.fixture
def tiny_gpt2(tmp_path):
    """A random GPT-2 in Hugging Face format, whose tokenizer has the words of the facts."""
    from transformers import GPT2Config, GPT2LMHeadModel

    texts = [f"{fact.prompt} {fact.answer}" for fact in templates.our_facts()]
    tokenizer = train_bpe(texts * 3, 900)
    shape = dict(n_positions=128, n_embd=24, n_layer=2, n_head=3)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=tokenizer.d_vocab, bos_token_id=0, eos_token_id=0, **shape)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    tokenizer.save(tmp_path / "tokenizer.json")
    return tmp_path


def test_a_folder_is_measured_and_gpt2_out_of_reach_is_said(
    tiny_gpt2, tmp_path, monkeypatch, capsys
):
    def half_right(model, prompts):
        return torch.where(torch.arange(len(prompts.last)) % 2 == 0, prompts.answers, 0)

    monkeypatch.setattr(templates, "predictions", half_right)
    measure = results.measure
    few = {"counts": (6, 4, 4)}
    monkeypatch.setattr(results, "measure", lambda m, **given: measure(m, **given | few))
    out = tmp_path / "out"
    tool.pretrained([str(tiny_gpt2), "gpt2"], 0, ["20"], out)
    said = capsys.readouterr().out
    assert "gpt2 is left out" in said and "is asked for facts of ours: CounterFact is out" in said
    found = json.loads((out / f"20-{tiny_gpt2.name}.json").read_text("utf-8"))
    assert found["family"] == "gpt2" and found["prompts"]["right"] == 6
    assert found["facts"] == "ours" and len(found["weights_sha256"]) == 64
    assert len(found["example"]["top"]) == 3
    assert found["shares"]["right"]["head | final"]["mean"] >= 0
    assert found["tests"]["heads: sharing, words"]["layers"][0] is not None


def test_a_gpt2_is_asked_for_counterfact_where_the_hub_gives_it(tiny_gpt2, tmp_path, monkeypatch):
    """Its rows as the hub has them; a random model knows none, so it is told which are right."""
    known = templates.our_facts()[:40]
    rows = [{"subject": s, "prompt": p, "target_true": f" {a}", "id": 1} for s, p, a in known]
    asked = []
    monkeypatch.setattr("datasets.load_dataset", lambda name, split: asked.append(name) or rows)
    assert sorted(templates.counterfact()) == sorted(known) and len(templates.counterfact(7)) == 7
    assert asked == ["NeelNanda/counterfact-tracing"] * 2

    def half_right(model, prompts):
        return torch.where(torch.arange(len(prompts.last)) % 2 == 0, prompts.answers, 0)

    monkeypatch.setattr(templates, "predictions", half_right)
    measure, few = results.measure, {"counts": (6, 4, 4)}
    monkeypatch.setattr(results, "measure", lambda m, **given: measure(m, **given | few))
    found = results.pretrained(load_pretrained(tiny_gpt2), "gpt2")
    assert found["facts"] == "CounterFact" and found["prompts"]["right"] == 6
    assert 0 < found["subjects"][0] <= 6


def test_a_model_that_knows_no_fact_is_refused_and_left_out(tiny_gpt2, tmp_path, capsys):
    with pytest.raises(ValueError, match="answers .* of the kind that it was trained on"):
        results.measure(load_pretrained(tiny_gpt2))
    tool.pretrained([str(tiny_gpt2)], 0, ["20"], tmp_path / "out")
    assert "notebook 20 is left out: of " in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


@torch.no_grad()
def test_heads_read_beside_their_sum(stories, named):
    written = measure.head_outputs(stories, named)
    text = named.tokens[2, : named.last[2] + 1]
    _, cache = stories.run_with_cache(text[None])
    torch.testing.assert_close(written[2, 1].sum(dim=0), cache["L1.attn_out"][0, -1])
    parts = {f"L1H{h}": written[2, 1, h] for h in range(4)}
    words, logits = measure.top_of_sum(stories, parts, n=3)["sum"]
    assert words[0] == stories.tokenizer.token_strings(named.answers[2:3])[0]
    id = int(named.answers[2])
    each = [removals.centered(x @ stories.W_U)[id].item() for x in parts.values()]
    assert sum(each) == pytest.approx(logits[0], abs=1e-4)


@torch.no_grad()
def test_in_the_last_layer_the_direct_effect_is_the_total_one(stories, named):
    def answers(logits):
        return removals.centered(logits).gather(1, named.answers[:, None])[:, 0]

    written, whole = measure.head_outputs(stories, named), measure.last_logits(stories, named)
    for head in all_heads(stories):
        direct = answers(written[:, head.layer, head.head] @ stories.W_U)
        left = measure.last_logits(stories, named, ablate(stories, [head]))
        apart = (direct - answers(whole) + answers(left)).abs().max()
        assert apart < 1e-4 if head.layer == 1 else apart > 0.1, head


def test_random_vectors_of_equal_norm_are_not_ranked():
    found = files.read("pretrained/20-smollm2")
    assert results.as_steep(found, "by lot") > 0.5
    assert abs(results.as_steep(found, "by lot, of equal norm")) < 0.25


def test_the_head_that_reads_as_oslo_is_missed_most():
    found, parts, kept = oslo.read()
    rms = kept["writes"].sum(dim=0).square().mean().sqrt()
    reading = (kept["writes"] / rms * kept["gain"]) @ kept["column"]
    assert reading.sum().item() == pytest.approx(found["logit"], abs=0.02)
    most = max(found["effect"], key=found["effect"].get)
    assert parts[int(reading.argmax())] == "L29 MLP" and most == found["without"]["head"] == "L23H4"
    assert max(found["effect"], key=dict(zip(parts, reading, strict=True)).get) == most
    capitals = found["capitals"]
    assert len(capitals["answers"]) == oslo.N and capitals["reads most"].count(most) == oslo.N - 1
    assert {each[:2] for each in capitals["needed most"] if each != most} == {"L0", "L1"}
    assert capitals["needed most"].count(most) == 19
    related = torch.corrcoef(torch.tensor([capitals["its reading"], capitals["its effect"]]))
    assert abs(related[0, 1]) < 0.2  # the reading does not tell how much is lost
    lost = found["without"]["lost"]
    assert lost["L29 MLP"] < -2 and lost["L24 MLP"] + lost["L29H1"] > 2


def test_heads_of_any_model_are_read_and_ablated(make_model, prompts):
    """In a last layer without norm and MLP both numbers are one."""
    model = make_model(layer_norm=False).requires_grad_(False)
    reading, effect = oslo.readings_and_effects(model, prompts)
    torch.testing.assert_close(reading[:, -1], effect[:, -1], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(reading[:, 0], effect[:, 0], atol=1e-3)


@pytest.mark.parametrize("seed", ["", "-seed1", "-seed2", "-seed3", "-seed4"])
def test_layer_0_has_a_head_that_reads_as_nothing_and_is_missed_most(seed):
    model = load_checkpoint(f"stories-2l{seed}").requires_grad_(False)
    reading, effect = oslo.readings_and_effects(model, templates.named(model))
    reading, effect = reading.mean(dim=0), effect.mean(dim=0)  # [layer, head]
    layer, head = divmod(int(effect.argmax()), model.config.n_heads)
    assert layer == 0 and effect[layer, head] > 8.5 and reading[layer, head].abs() < 0.4


BROKEN = {"loud": (Head(1, 2), 4), "quiet": (Head(0, 3), 12)}  # as the folded solution


def wrong(change):
    """A wrong `norm_matched`: `change` of (what heads wrote, what they could have written)."""

    def page(heads, W_O):
        z = torch.randn(*heads.shape[:-1], W_O.shape[1])
        return change(heads, (z[..., None, :] @ W_O)[..., 0, :])

    return page


ANSWERS = [
    ("20.1", lambda heads, W_O: heads, "not yet"),
    ("20.1", lambda heads, W_O: torch.randn(heads.shape), "not yet"),
    ("20.1", wrong(lambda heads, made: made), "not yet"),  # other norms
    ("20.1", wrong(lambda heads, made: made[:1].expand_as(heads)), "not yet"),
    ("20.3", lambda x, here, there, W: x - here @ W + there @ W, "solved"),
    ("20.3", lambda x, here, there, W: x + here @ W - there @ W, "not yet"),
    ("20.3", lambda x, here, there, W: x + there @ W, "not yet"),
    ("20.3", lambda x, here, there, W: x - here @ W, "not yet"),
    ("20.3", lambda x, here, there, W: there @ W, "not yet"),
    ("20.3", lambda x, here, there, W: there, "not yet"),
    ("20.2", {}, "solved"),
    ("20.2", {"loud": (Head(1, 2), 12)}, "not yet"),
    ("20.2", {"loud": (Head(0, 2), 4)}, "not yet"),
    ("20.2", {"loud": ...}, "not yet"),
    ("20.2", {"quiet": (Head(1, 0), 22)}, "not yet"),
    ("20.2", {"quiet": (Head(0, 0), 12)}, "not yet"),
    ("20.2", {"quiet": (Head(0, 3), 23)}, "not yet"),
    ("20.2", {"quiet": 3}, "not yet"),
    ("20.2", {"loud": ..., "quiet": ...}, "not attempted"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(asked, verdict, number, answer, expected):
    given = {"20.3": asked, "20.2": {name: asked[name] for name in ("model", "tokens")}}
    answer = BROKEN | answer if number == "20.2" else answer
    assert verdict(number, answer, **given.get(number, {})) == expected


@pytest.mark.parametrize("number", ["20.1", "20.3"])
def test_a_page_is_the_readers_once_it_is_right(asked, check_page, number):
    check_page(number, **(asked if number == "20.3" else {}))


def test_figures_can_be_read():
    smollm2 = files.read("pretrained/20-smollm2")
    found = {50: {"real": [(0.2, 0.0), (0.1, 0.0)], "random": [(0.2, 0.0), (0.3, 0.1)]}}
    curves = {equal: {"SmolLM2": results.by_rank(smollm2, equal)} for equal in (False, True)}
    effects = {Head(i, h): (torch.zeros(3), torch.ones(3)) for i in range(2) for h in range(4)}
    some = pandas.DataFrame({"reading": [0.1, 2.0], "effect": [1.0, 2.0]}, index=["L0H0", "L2H1"])
    drawn = [
        figures.words_by_layer({"a": [" a", "b"], "b": ["c", "b"]}, ["x", "y"], "t"),
        figures.readings_and_effects(effects, {Head(0, 3): "black", Head(1, 1): "green"}, "t"),
        figures.heads_of_a_model(some, {"L2H1": "green"}, "t"),
        figures.by_norm(curves[False], "t"),
        figures.by_norm(curves[True], "t"),
        figures.with_and_without(found, "t"),
        figures.sum_of_heads({n: ([" a", "b"], [2.0, 1.0]) for n in ("L1H0", "L1H1", "sum")}, "t"),
    ]
    for figure in drawn:
        figure.draw_without_rendering()
    check_figures(*drawn)


def test_the_strongest_neuron_writes_the_longest_vector(make_model, some_tokens):
    model = make_model(layer_norm=True, d_mlp=16)
    with torch.no_grad():
        _, cache = model.run_with_cache(some_tokens)
        each = cache["L0.mlp_hidden"][..., None] * model.mlp_values(0)  # [batch, pos, n, d_model]
        found = readings.strongest_value(model, cache, 0)
    longest = each.norm(dim=-1).argmax(dim=-1)
    by_hand = each.gather(2, longest[..., None, None].expand(-1, -1, 1, 8))[:, :, 0]
    torch.testing.assert_close(found, by_hand)
    with pytest.raises(ValueError, match="d_mlp = 0.*load one with MLPs"):
        readings.strongest_value(make_model(), cache, 0)


def test_random_readings_share_k_of_v():
    draw = torch.Generator().manual_seed(0)
    ids = torch.randn(2, 400, 200, generator=draw).topk(20).indices
    assert readings.overlap(*ids).mean().item() == pytest.approx(0.1, abs=0.01)
    assert readings.overlap(torch.tensor([0, 2]), torch.tensor([3, 2])).item() == 0.5
