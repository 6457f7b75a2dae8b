"""Notebook 20's prompts, readings and removals, each against a second way to the same number."""

import json

import pytest
import torch

import measure as tool
from aot_helpers.base import results
from aot_helpers.models.pretrained import load_pretrained
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate
from aot_helpers.reading.logit_lens import lens, read, top_tokens
from aot_helpers.text.tokenization import train_bpe
from chapters.nb20_logit_lens import controls as lens_controls
from chapters.nb20_logit_lens import figures as lens_figures
from chapters.nb20_logit_lens import readings as lens_readings
from chapters.nb20_logit_lens import removals as lens_removals
from chapters.nb20_logit_lens import results as lens_results
from chapters.nb20_logit_lens import sums as lens_sums
from chapters.nb20_logit_lens import templates as lens_prompts
from chapters.nb20_logit_lens.templates import Prompts
from figure_checks import check_figures


@pytest.fixture
def prompts():
    tokens = torch.randint(11, (6, 8), generator=torch.Generator().manual_seed(3))
    last = torch.tensor([7, 4, 5, 7, 3, 6])
    return Prompts(tokens, last, torch.zeros(6, dtype=torch.long))


@pytest.fixture
def run(make_model, prompts):
    """Of a tiny model with layer norm and MLPs, and of one without either."""

    def make(**changes):
        model = make_model(**changes).requires_grad_(False)
        readings = lens_readings.read_prompts(model, prompts, k=3)
        return model, readings, lens_removals.clean_run(model, prompts)

    return make


@pytest.mark.parametrize("changes", [{"layer_norm": False}, {"layer_norm": True, "d_mlp": 16}])
def test_readings_are_those_of_one_prompt_alone(run, prompts, changes):
    model, readings, clean = run(**changes)
    for row in (1, 4):  # shorter than the longest: the padding must not matter
        text = prompts.tokens[row, : prompts.last[row] + 1]
        logits, cache = model.run_with_cache(text[None])
        torch.testing.assert_close(clean.logits[row], logits[0, -1])
        for name in ("head", "query", "head without W_O"):
            mine = read(model, cache, name, Head(1, 1))[0, -1]
            assert torch.equal(readings.ids[name][row, 1, 1], top_tokens(lens(model, mine), 3))
        key = 1 + int(cache["L1.pattern"][0, 1, -1, 1:].argmax())  # never the first token
        value = read(model, cache, "value", Head(1, 1))[0, key]
        assert torch.equal(readings.ids["value"][row, 1, 1, 0], top_tokens(lens(model, value), 3))
        written = lens(model, cache["L1.attn_out"][0, -1])
        said = lens(model, read(model, cache, "head", Head(1, 0))[0, -1])
        shared = lens_readings.shared(readings.ids, "head", "attention output")
        in_common = lens_readings.overlap(*(top_tokens(x, 3) for x in (said, written)))
        assert shared[row, 1, 0] == in_common
        assert torch.equal(readings.ids["final"][row, 0], top_tokens(logits[0, -1], 3))


def test_pairs_with_another_prompt_are_those_of_the_next_row(run):
    _, readings, _ = run()
    ids = readings.ids
    other = lens_readings.shared(ids, "head", "attention output", other_prompt=True)
    assert other[0, 1, 0] == lens_readings.overlap(
        ids["head"][0, 1, 0], ids["attention output"][-1, 1]
    )


def test_a_head_leaves_by_its_own_reading_where_there_is_no_norm(run):
    """Ablation against attribution: the lens behind the layer falls by what the head says."""
    model, _, clean = run(layer_norm=False)
    for head in (Head(0, 1), Head(1, 0)):
        part = torch.zeros_like(clean.z[:, head.layer])
        part[:, head.head] = clean.z[:, head.layer, head.head]
        says = lens(model, clean.z[:, head.layer, head.head] @ model.head_weights(head).W_O)
        says = lens_removals.centered(says)
        ids = {"all": torch.arange(11).expand(6, 11), "some": top_tokens(says, 4)}
        lost = lens_removals.fall(model, clean, f"L{head.layer}.z", part, ids)
        torch.testing.assert_close(lost["some, here"], says.topk(4).values.mean(dim=1))
        torch.testing.assert_close(lost["all"], torch.zeros(6), atol=1e-5, rtol=0)
        if head.layer == 1:  # nothing comes after it
            torch.testing.assert_close(lost["some"], lost["some, here"])


def test_a_removal_at_the_last_position_is_an_ablation_of_the_last_layer(run, prompts):
    model, _, clean = run(layer_norm=True, d_mlp=16)
    head = Head(1, 1)  # what it says elsewhere reaches no other position
    part = torch.zeros_like(clean.z[:, 1])
    part[:, 1] = clean.z[:, 1, 1]
    ids = {"words": top_tokens(clean.logits, 3)}
    lost = lens_removals.fall(model, clean, "L1.z", part, ids)
    for row in (0, 2):
        text = prompts.tokens[row, : prompts.last[row] + 1][None]
        after = model(text, edits=ablate(model, [head], by="zero"))[0, -1]
        fall = lens_removals.centered(clean.logits[row]) - lens_removals.centered(after)
        torch.testing.assert_close(lost["words"][row], fall[ids["words"][row]].mean())
        left = lens_removals.run_with(model, prompts, 1, clean.z[:, 1] - part)
        torch.testing.assert_close(left[row], lens_removals.centered(after))


def test_values_taken_away_one_by_one_are_the_head(run):
    _, _, clean = run(layer_norm=False)
    every = sum(clean.by_key[0][:, 1, key] for key in range(clean.by_key[0].shape[2]))
    torch.testing.assert_close(every, clean.z[:, 1])


def test_other_words_are_the_next_prompts_and_not_ones_own():
    ids = torch.tensor([[1, 2, 3], [3, 4, 5], [6, 1, 8]])
    assert lens_removals.other_words(ids).tolist() == [[6, -1, 8], [1, 2, -1], [3, 4, 5]]
    values = torch.arange(18.0).view(2, 9)
    means = lens_removals.mean_of(values, torch.tensor([[1, -1, 3], [-1, -1, -1]]))
    assert means[0] == 2 and means[1].isnan()


def test_made_up_vectors_have_the_norms_of_the_real_ones(run):
    model, _, clean = run(layer_norm=False)
    draw, z = torch.Generator().manual_seed(0), clean.z[:, 1]
    size = lens_readings.written_by(model, 1, z).norm(dim=-1)
    for make in lens_controls.random_z, lens_controls.shuffled:
        made = lens_readings.written_by(model, 1, make(model, 1, z, draw))
        torch.testing.assert_close(made.norm(dim=-1), size)
    made = lens_controls.shuffled(model, 1, z, draw)
    for head in range(2):  # the same directions, in another order
        mine, theirs = (each[:, head] / each[:, head].norm(dim=-1)[:, None] for each in (z, made))
        assert (theirs @ mine.T).max(dim=1).values == pytest.approx([1.0] * 6, abs=1e-5)


def test_a_random_query_meets_its_own_favorite_key(run, prompts):
    """Both readings lie among zeros at the place of their head."""
    model, readings, _ = run()
    for said in lens_readings.LOTS:
        assert readings.ids[f"query{said}"].shape == readings.ids["query"].shape
    draw = torch.Generator().manual_seed(0)
    _, cache = model.run_with_cache(prompts.tokens)
    found = lens_readings._query_by_lot(model, cache, prompts, 1, 3, draw, " by lot")
    query = torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0))
    for row, last in enumerate(prompts.last):  # the longest query does not change a favorite
        keys = cache["L1.k"][row, 1 : last + 1, 1]
        best = 1 + int((keys @ query[row, 1]).argmax())
        key = read(model, cache, "key without W_Q", Head(1, 1))[row, best]
        mine = found["key of query by lot"][row, 1]
        assert torch.equal(mine, top_tokens(lens(model, key), 3))


def test_of_a_last_layer_without_norm_any_vector_takes_its_words_along(run):
    """What makes a random vector's removal arithmetic: the words fall by what it says."""
    model, readings, clean = run(layer_norm=False)
    made = lens_readings.written_by(model, 1, clean.z[:, 1].roll(1, dims=0))
    z = clean.z[:, 1].clone()
    z[:, 0] = clean.z[:, 1, 0].roll(1, dims=0)
    left = z.clone()
    left[:, 0] = 0
    runs = [lens_removals.run_with(model, clean.prompts, 1, each) for each in (z, left)]
    says = lens_removals.centered(lens(model, made[:, 0]))
    torch.testing.assert_close(runs[0] - runs[1], says)
    for found in (
        lens_controls.heads_off(model, clean, 1, k=3),
        lens_controls.head_off(model, clean, 1, k=3),
        lens_removals.heads_off(model, clean, readings, 1),
        lens_removals.head_off(model, clean, readings, 1),
    ):
        assert all(len(each) == 6 for each in found.values())


def test_random_vectors_are_as_long_as_what_they_replace(run):
    model, _, clean = run(layer_norm=False)
    z = clean.z[:, 0]
    made = lens_controls._as_large(model, 0, torch.randn(z.shape), z)
    sizes = [lens_readings.written_by(model, 0, each).norm(dim=-1) for each in (made, z)]
    torch.testing.assert_close(*sizes)


def test_other_prompts_have_other_answers():
    draw, answers = torch.Generator().manual_seed(0), torch.tensor([5, 5, 6, 7, 6])
    found = lens_controls.with_other_answers(answers, 2, draw)
    for row, others in enumerate(found):
        assert len({int(answers[row]), *answers[others].tolist()}) == 3
    alone = lens_controls.with_other_answers(torch.tensor([5, 5]), 1, draw)
    assert alone.tolist() == [[-1], [-1]]


def test_a_patched_head_brings_what_it_wrote_elsewhere(run):
    model, _, clean = run(layer_norm=False)
    clean = clean._replace(logits=torch.eye(11)[torch.arange(6) % 4] * 9)  # four answers
    found = lens_controls.patched(model, clean, 1)
    assert found["brought"].isfinite().all()
    one, two = (found[f"{which}, brought"] for which in lens_controls.PATCHED)
    torch.testing.assert_close(found["brought"], one - two)


def test_names_move_with_the_head_that_says_them(stories):
    prompts = lens_prompts.named(stories)
    few = lens_prompts.some(prompts, slice(0, 40, 5))
    moved = lens_controls.names_patched(stories, few)
    random = lens_controls.names_patched(stories, few, lens_controls.random_z)
    assert moved["says it"].mean() > 0.5 > random["says it"].mean()
    assert moved["says it"].mean() > 0.5 > moved["others"].mean()
    each = torch.stack([moved[f"L1H{head}"] for head in range(4)])
    torch.testing.assert_close(each.sum(dim=0), moved["says it"] + 3 * moved["others"])
    assert (lens_prompts.predictions(stories, few) == few.answers).all()


def test_the_lens_foretells_a_patch_of_a_last_layer_without_norm(stories, run, prompts):
    asked = lens_prompts.some(lens_prompts.named(stories), slice(0, 40, 5))
    assert lens_controls.foretold(stories, asked, 2) < 1e-4
    model, _, _ = run(layer_norm=True)  # with a norm, or layers to come, it does not
    with_answers = prompts._replace(answers=torch.zeros(6, dtype=torch.long))
    assert lens_controls.foretold(model, with_answers, 0) > 1e-3


def test_a_head_patched_logits_says_what_it_says_there(stories):
    tokens, other = (
        stories.tokenizer.encode(lens_prompts.NAMED.format(a, b, a), bos=True)
        for a, b in (("Deko", "Balis"), ("Tavi", "Zorin"))
    )
    runs = [stories.run_with_cache(each[None])[1] for each in (tokens, other)]
    here, there = (lens(stories, read(stories, c, "head", Head(1, 2))[0, -1]) for c in runs)
    after = lens_controls.patched_logits(stories, tokens, other, [Head(1, 2)])
    logits = stories(tokens[None])[0, -1]
    torch.testing.assert_close(after, logits - here + there, atol=1e-4, rtol=0)
    untouched = lens_controls.patched_logits(stories, tokens, other, [])
    torch.testing.assert_close(untouched, logits)


def test_facts_about_one_thing_are_counted_once(stories):
    asked = (
        "The capital of Norway is",
        "The capital of Norway is the city of",
        "People in Peru speak",
    )
    texts = [stories.tokenizer.encode(text) for text in asked]
    assert lens_prompts.subjects(stories, lens_prompts.gather(texts, [0, 0, 0])) == 2


def test_prompts_that_begin_alike_stand_apart():
    begin = torch.tensor([[1, 1], [1, 1], [1, 1], [2, 1], [2, 2], [2, 2]])
    order = lens_prompts.apart(Prompts(begin, torch.ones(6, dtype=torch.long), torch.arange(6)))
    assert sorted(order.answers.tolist()) == list(range(6))
    assert not (order.tokens == order.tokens.roll(1, dims=0)).all(dim=1).any()


def test_a_prompt_too_long_and_a_k_too_large_are_named(make_model, prompts):
    model = make_model()
    long = Prompts(torch.zeros(2, 12, dtype=torch.long), torch.tensor([11, 11]), torch.zeros(2))
    for call in lens_readings.read_prompts, lens_removals.clean_run:
        with pytest.raises(ValueError, match="12 tokens, but the model sees at most n_ctx = 10"):
            call(model, long)
    with pytest.raises(ValueError, match="k must be .* 11, got 50"):
        lens_readings.read_prompts(model, prompts)


def test_prompts_end_where_the_text_goes_on(stories):
    from aot_helpers.text.corpora import load_corpus

    texts = load_corpus("stories", "test", quiet=True).texts[:60]
    found = lens_prompts.windows(stories, texts, 10)
    encoded = [stories.tokenizer.encode(text, bos=True) for text in texts]
    for row, last in enumerate(found.last):
        start = found.tokens[row, : last + 1]
        (whole,) = [e for e in encoded if torch.equal(e[: last + 1], start)]
        assert whole[last + 1] == found.answers[row]
    kinds = lens_prompts.by_kind(stories, texts, 12, 5)
    said = {kind: lens_prompts.predictions(stories, each) for kind, each in kinds.items()}
    assert (said["right"] == kinds["right"].answers).all()
    assert (said["wrong"] != kinds["wrong"].answers).all()
    with pytest.raises(ValueError, match="answers .* as they go on: at least 4, "):
        lens_prompts.by_kind(stories, texts[:4])
    with pytest.raises(ValueError, match="give longer texts"):
        lens_prompts.windows(stories, ["Too short."], 10)


def test_a_summary_is_the_mean_with_an_interval():
    values = torch.tensor([[1.0, 2.0], [3.0, torch.nan], [5.0, 6.0]])
    found = lens_results.summary(values)
    assert found["layers"] == [3.0, 4.0] and found["mean"] == pytest.approx(3.333, abs=1e-3)
    assert found["low"][0] <= 3 <= found["high"][0]


@pytest.fixture
def tiny_gpt2(tmp_path):
    """A random GPT-2 in Hugging Face format, whose tokenizer has the words of the facts."""
    from transformers import GPT2Config, GPT2LMHeadModel

    facts = lens_prompts.FACTS.items()
    texts = [t.format(pair.replace(" ", " is ")) for t, pairs in facts for pair in pairs.split(",")]
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

    monkeypatch.setattr(lens_prompts, "predictions", half_right)
    measure = lens_results.measure
    monkeypatch.setattr(lens_results, "measure", lambda m, counts: measure(m, counts=(6, 4, 4)))
    out = tmp_path / "out"
    tool.pretrained([str(tiny_gpt2), "gpt2"], 0, ["20"], out)
    assert "gpt2 is left out" in capsys.readouterr().out
    found = json.loads((out / f"20-{tiny_gpt2.name}.json").read_text("utf-8"))
    assert found["family"] == "gpt2" and found["prompts"]["right"] == 6
    assert len(found["example"]["top"]) == 3 and len(found["example"]["heads"]) == 6
    assert found["shares"]["right"]["head | final"]["mean"] >= 0
    assert found["tests"]["heads: sharing, words"]["layers"][0] is not None


def test_a_model_that_knows_no_fact_is_refused(tiny_gpt2):
    with pytest.raises(ValueError, match="answers .* of the kind that it was trained on"):
        lens_results.measure(load_pretrained(tiny_gpt2))


@torch.no_grad()
def test_heads_read_beside_their_sum(stories):
    prompts = lens_prompts.some(lens_prompts.named(stories), slice(0, 40, 5))
    written = lens_sums.outputs(stories, prompts)
    text = prompts.tokens[2, : prompts.last[2] + 1]
    _, cache = stories.run_with_cache(text[None])
    torch.testing.assert_close(written[2, 1].sum(dim=0), cache["L1.attn_out"][0, -1])
    parts = {f"L1H{h}": written[2, 1, h] for h in range(4)}
    columns = lens_sums.top_of_sum(stories, parts, n=3)
    (word, logit), *_ = columns["sum"]
    assert word == stories.tokenizer.token_strings(prompts.answers[2:3])[0]
    id = int(prompts.answers[2])
    each = [lens_removals.centered(x @ stories.W_U)[id].item() for x in parts.values()]
    assert sum(each) == pytest.approx(logit, abs=1e-4)


@torch.no_grad()
def test_in_the_last_layer_the_direct_effect_is_the_total_one(stories):
    prompts = lens_prompts.some(lens_prompts.named(stories), slice(0, 40, 5))
    for head, (direct, total) in lens_sums.direct_and_total(stories, prompts).items():
        apart = (direct - total).abs().max()
        assert apart < 1e-4 if head.layer == 1 else apart > 0.1, head
    found = lens_sums.carried_by_pick(stories, prompts, 1)
    assert found["picked by the lens"] > 1 and len(found) == 2


def test_random_vectors_of_equal_norm_are_not_ranked():
    found = {"SmolLM2": results.read("pretrained/20-smollm2")}
    assert lens_sums.steepness(found, True)["SmolLM2"] > 0.5
    assert abs(lens_sums.steepness(found, False)["SmolLM2"]) < 0.25


@pytest.fixture
def asked(stories):
    tokens, other = (
        stories.tokenizer.encode(lens_prompts.NAMED.format(a, b, a), bos=True)
        for a, b in (("Deko", "Balis"), ("Tavi", "Zorin"))
    )
    return {"model": stories, "tokens": tokens, "other": other}


def stretched(heads, made):
    return made * heads.norm(dim=-1, keepdim=True) / made.norm(dim=-1, keepdim=True)


def through(heads, W_O, z):
    return (z[..., None, :] @ W_O)[..., 0, :]


def small(heads, W_O):
    return torch.randn(*heads.shape[:-1], W_O.shape[1])


BROKEN = {"loud": (Head(1, 2), 4), "quiet": (Head(0, 3), 12)}  # as the folded solution


def wrong(change):
    """A wrong `norm_matched`: `change` of (what heads wrote, what they could have written)."""

    def page(heads, W_O):
        z = torch.randn(*heads.shape[:-1], W_O.shape[1])
        return change(heads, (z[..., None, :] @ W_O)[..., 0, :])

    return page


def lens_page(x, norm, W, k):
    p = (norm(x) @ W).softmax(dim=-1)
    return p.topk(k).indices, p


ANSWERS = [
    ("20.1", lens_page, "solved"),
    ("20.1", lambda x, norm, W, k: lens_page(x, lambda y: y, W, k), "not yet"),
    ("20.1", lambda *given: lens_page(*given)[::-1], "not yet"),
    ("20.1", lambda x, norm, W, k: (lens_page(x, norm, W, k)[0], norm(x) @ W), "not yet"),
    ("20.1", lambda x, norm, W, k: lens_page(x, norm, -W, k), "not yet"),
    ("20.1", lambda *given: lens_page(*given)[1], "not yet"),
    ("20.2", lambda heads, W_O: heads, "not yet"),
    ("20.2", lambda heads, W_O: torch.randn(heads.shape), "not yet"),
    ("20.2", wrong(lambda heads, made: made), "not yet"),  # other norms
    ("20.2", wrong(lambda heads, made: made[:1].expand_as(heads)), "not yet"),
    ("20.4", lambda x, here, there, W: x - here @ W + there @ W, "solved"),
    ("20.4", lambda x, here, there, W: x + here @ W - there @ W, "not yet"),
    ("20.4", lambda x, here, there, W: x + there @ W, "not yet"),
    ("20.4", lambda x, here, there, W: x - here @ W, "not yet"),
    ("20.4", lambda x, here, there, W: there @ W, "not yet"),
    ("20.4", lambda x, here, there, W: there, "not yet"),
    ("20.3", {}, "solved"),
    ("20.3", {"loud": (Head(1, 2), 12)}, "not yet"),
    ("20.3", {"loud": (Head(0, 2), 4)}, "not yet"),
    ("20.3", {"loud": ...}, "not yet"),
    ("20.3", {"quiet": (Head(1, 0), 22)}, "not yet"),
    ("20.3", {"quiet": (Head(0, 0), 12)}, "not yet"),
    ("20.3", {"quiet": (Head(0, 3), 23)}, "not yet"),
    ("20.3", {"quiet": 3}, "not yet"),
    ("20.3", {"loud": ..., "quiet": ...}, "not attempted"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(asked, verdict, number, answer, expected):
    given = {"20.4": asked, "20.3": {name: asked[name] for name in ("model", "tokens")}}
    answer = BROKEN | answer if number == "20.3" else answer
    assert verdict(number, answer, **given.get(number, {})) == expected


@pytest.mark.parametrize("number", ["20.1", "20.2", "20.4"])
def test_a_page_is_the_readers_once_it_is_right(asked, check_page, number):
    check_page(number, **(asked if number == "20.4" else {}))


def test_figures_can_be_read():
    smollm2 = results.read("pretrained/20-smollm2")
    example, figures = smollm2["example"], lens_figures
    columns = {"a": [(" x", 1.0)], "sum": [(" x", 1.04), ("\n", -2.0)]}
    found = {50: {"real": [(0.2, 0.0), (0.1, 0.0)], "random": [(0.2, 0.0), (0.3, 0.1)]}}
    effects = {Head(i, h): (torch.zeros(3), torch.ones(3)) for i in range(2) for h in range(4)}
    check_figures(
        figures.grid(example["top"], example["p"], example["tokens"], "t", " Oslo", 3),
        figures.columns_of_a_sum(columns, "", "t"),
        figures.by_depth(smollm2, "t"),
        figures.by_norm({"SmolLM2": smollm2}, "t"),
        figures.with_and_without(found, "t"),
        figures.direct_and_total(effects, "t"),
        figures.patched(dict.fromkeys(("a", "b", "c"), smollm2), "t"),
        figures.ranks(example, smollm2, "t"),
    )


def test_the_strongest_neuron_writes_the_longest_vector(make_model, some_tokens):
    model = make_model(layer_norm=True, d_mlp=16)
    with torch.no_grad():
        _, cache = model.run_with_cache(some_tokens)
        each = cache["L0.mlp_hidden"][..., None] * model.mlp_values(0)  # [batch, pos, n, d_model]
        found = lens_readings.strongest_value(model, cache, 0)
    longest = each.norm(dim=-1).argmax(dim=-1)
    by_hand = each.gather(2, longest[..., None, None].expand(-1, -1, 1, 8))[:, :, 0]
    torch.testing.assert_close(found, by_hand)
    with pytest.raises(ValueError, match="d_mlp = 0.*load one with MLPs"):
        lens_readings.strongest_value(make_model(), cache, 0)


def test_random_readings_share_k_of_v():
    draw = torch.Generator().manual_seed(0)
    ids = torch.randn(2, 400, 200, generator=draw).topk(20).indices
    assert lens_readings.overlap(*ids).mean().item() == pytest.approx(0.1, abs=0.01)
    assert lens_readings.overlap(torch.tensor([0, 2]), torch.tensor([3, 2])).item() == 0.5
