"""Notebook 20's readings, removals and patches, each against a second way to the same number."""

import json

import pytest
import torch

import measure as tool
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.pretrained import load_pretrained
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate
from aot_helpers.reading.logit_lens import lens, top_tokens
from aot_helpers.text.corpora import load_corpus
from aot_helpers.text.tokenization import train_bpe
from chapters.nb20_logit_lens import measure
from chapters.nb20_logit_lens.measure import Prompts
from evidence.support.nb20 import interventions, oslo, readings, results
from evidence.support.nb20 import prompts as facts
from evidence.support.nb20.readings import read, written_by


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
        read_all = readings.read_prompts(model, prompts, [0, 1], k=3)
        return model, read_all, interventions.clean_run(model, prompts)

    return make


@pytest.fixture(scope="module")
def named(stories):
    return measure.subset(measure.name_prompts(stories), slice(0, 40, 5))


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
    left = interventions.logits_with(model, prompts, 1, z)
    for row in (0, 2):
        text = prompts.tokens[row, : prompts.last[row] + 1][None]
        after = model(text, edits=ablate(model, [Head(1, 1)], by="zero"))[0, -1]
        torch.testing.assert_close(left[row], interventions.centered(after))


def test_values_add_up_to_the_head(run):
    clean = run(layer_norm=False)[2]
    torch.testing.assert_close(clean.by_key.sum(dim=3), clean.z)


def test_other_words_are_the_next_prompts_and_not_ones_own():
    ids, values = torch.tensor([[1, 2, 3], [3, 4, 5]]), torch.arange(18.0).view(2, 9)
    assert interventions.without(ids.roll(1, dims=0), ids).tolist() == [[-1, 4, 5], [1, 2, -1]]
    fall = interventions.specific_fall(values, ids)
    assert fall["words"].tolist() == [2, 13] and fall["other words"].tolist() == [4.5, 10.5]
    assert interventions.mean_of(values, torch.full((2, 1), -1)).isnan().all()


def test_random_vectors_have_the_norms_of_the_real_ones(run):
    model, _, clean = run(layer_norm=False)
    draw, z = torch.Generator().manual_seed(0), clean.z[:, 1]
    size = written_by(model, 1, z).norm(dim=-1)
    for make in interventions.random_z, interventions.shuffled_z:
        made = written_by(model, 1, make(model, 1, z, draw))
        torch.testing.assert_close(made.norm(dim=-1), size)
    made = interventions.shuffled_z(model, 1, z, draw)
    for head in range(2):  # the same directions, in another order
        mine, theirs = (each[:, head] / each[:, head].norm(dim=-1)[:, None] for each in (z, made))
        assert (theirs @ mine.T).max(dim=1).values == pytest.approx([1.0] * 6, abs=1e-5)


def test_a_random_query_meets_its_own_favorite_key(run, prompts):
    """Both readings lie among zeros at the place of their head."""
    model, found, _ = run()
    for said in readings.LOTS:
        assert found.ids[f"query{said}"].shape == found.ids["query"].shape
    _, cache = model.run_with_cache(prompts.tokens)
    layer, draw = readings.Layer(model, cache, prompts, 1), torch.Generator().manual_seed(0)
    found = readings._random_query(layer, draw, " by lot")["key of query by lot"]
    query = torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0))
    for row, last in enumerate(prompts.last):  # the longest query does not change a favorite
        keys = cache["L1.k"][row, 1 : last + 1, 1]
        best = 1 + int((keys @ query[row, 1]).argmax())
        key = read(model, cache, "key without W_Q", Head(1, 1))[row, best]
        torch.testing.assert_close(found[row, 1], key)


def test_of_a_last_layer_without_norm_any_vector_takes_its_words_along(run):
    """What makes a random vector's removal arithmetic: the words fall by what it says."""
    model, _, clean = run(layer_norm=False)
    at, put = torch.zeros(6, dtype=torch.long), clean.z[:, 1, 0].roll(1, dims=0)
    fall = interventions._fall(model, clean, 1, at, put, torch.zeros_like(put))
    says = interventions.centered(lens(model, put @ model.layer_weights(1).W_O[0]))
    torch.testing.assert_close(fall, says)
    found = interventions.head_off(model, clean, 1, k=3, random=True)
    assert (found["head, words"] > 0).all()  # the words are those that it says


def test_other_prompts_have_other_answers():
    draw, answers = torch.Generator().manual_seed(0), torch.tensor([5, 5, 6, 7, 6])
    found = interventions.with_other_answers(answers, 2, draw)
    for row, others in enumerate(found):
        assert len({int(answers[row]), *answers[others].tolist()}) == 3
    alone = interventions.with_other_answers(torch.tensor([5, 5]), 1, draw)
    assert alone.tolist() == [[-1], [-1]]


def test_a_patched_head_brings_what_it_wrote_elsewhere(run):
    model, _, clean = run(layer_norm=False)
    clean = clean._replace(logits=torch.eye(11)[torch.arange(6) % 4] * 9)  # four answers
    found = interventions.patched(model, clean, 1)
    assert found["brought"].isfinite().all()
    one, two = (found[f"{which}, brought"] for which in interventions.PATCHED)
    torch.testing.assert_close(found["brought"], one - two)


def test_names_move_with_the_head_that_says_them(stories, named):
    moved = interventions.names_patched(stories, named)
    random = interventions.names_patched(stories, named, interventions.random_z)
    assert moved["says it"].mean() > 0.5 > random["says it"].mean()
    assert moved["others"].mean() < 0.5
    each = torch.stack([moved[f"L1H{head}"] for head in range(4)])
    torch.testing.assert_close(each.sum(dim=0), moved["says it"] + 3 * moved["others"])
    assert (measure.predictions(stories, named) == named.answers).all()


def test_the_lens_foretells_a_patch_of_a_last_layer_without_norm(stories, named, run):
    assert interventions.prediction_error(stories, named, 2) < 1e-4
    model, _, clean = run(layer_norm=True)  # with a norm it does not
    assert interventions.prediction_error(model, clean.prompts, 0) > 1e-3


def test_facts_about_one_thing_are_counted_once(stories):
    asked = (
        "The capital of Norway is",
        "The capital of Norway is the city of",
        "People in Peru speak",
    )
    texts = [stories.tokenizer.encode(text) for text in asked]
    assert results.subjects(stories, measure.gather(texts, [0, 0, 0]), facts.our_facts()) == 2


def test_prompts_that_begin_alike_stand_apart():
    begin = torch.tensor([[1, 1], [1, 1], [1, 1], [2, 1], [2, 2], [2, 2]])
    order = facts.apart(Prompts(begin, torch.ones(6, dtype=torch.long), torch.arange(6)))
    assert sorted(order.answers.tolist()) == list(range(6))
    assert not (order.tokens == order.tokens.roll(1, dims=0)).all(dim=1).any()


def test_prompts_are_told_apart_by_the_models_answers(stories):
    texts = load_corpus("stories", "test", quiet=True).texts[:60]
    asked = measure.windows(stories, texts, len(texts))
    kinds = facts.by_kind(stories, asked, 12, 5)
    said = {kind: measure.predictions(stories, each) for kind, each in kinds.items()}
    assert (said["right"] == kinds["right"].answers).all() and len(said["right"]) == 12
    assert (said["wrong"] != kinds["wrong"].answers).all() and len(said["wrong"]) == 5
    with pytest.raises(ValueError, match="answers .* as they go on: at least 4, "):
        facts.by_kind(stories, measure.subset(asked, slice(4)), 12, 5)


def test_a_summary_is_the_mean_with_an_interval():
    values = torch.tensor([[1.0, 2.0], [3.0, torch.nan], [5.0, 6.0]])
    found = results.summary(values)
    assert found["layers"] == [3.0, 4.0] and found["mean"] == pytest.approx(3.333, abs=1e-3)
    assert found["low"][0] <= 3 <= found["high"][0]


@pytest.fixture
def tiny_gpt2(tmp_path):
    """A random GPT-2 in Hugging Face format, whose tokenizer has the words of the facts."""
    from transformers import GPT2Config, GPT2LMHeadModel

    texts = [f"{fact.prompt} {fact.answer}" for fact in facts.our_facts()]
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

    monkeypatch.setattr(facts, "predictions", half_right)
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


def test_facts_of_counterfact_are_drawn_from_its_rows(monkeypatch):
    """As the hub has them; tests/slow/test_counterfact.py measures a model on them."""
    known = facts.our_facts()[:40]
    rows = [{"subject": s, "prompt": p, "target_true": f" {a}", "id": 1} for s, p, a in known]
    asked = []
    monkeypatch.setattr("datasets.load_dataset", lambda name, split: asked.append(name) or rows)
    assert sorted(facts.counterfact()) == sorted(known) and len(facts.counterfact(7)) == 7
    assert asked == ["NeelNanda/counterfact-tracing"] * 2


def test_a_model_that_knows_no_fact_is_refused_and_left_out(tiny_gpt2, tmp_path, capsys):
    with pytest.raises(ValueError, match="answers .* of the kind that it was trained on"):
        results.measure(load_pretrained(tiny_gpt2))
    tool.pretrained([str(tiny_gpt2)], 0, ["20"], tmp_path / "out")
    assert "notebook 20 is left out: of " in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_heads_of_any_model_are_read_and_ablated(make_model, prompts):
    """In a last layer without norm and MLP both numbers are one."""
    model = make_model(layer_norm=False).requires_grad_(False)
    reading, effect = oslo.readings_and_effects(model, prompts)
    torch.testing.assert_close(reading[:, -1], effect[:, -1], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(reading[:, 0], effect[:, 0], atol=1e-3)
    again, some = oslo.readings_and_effects(model, prompts, [Head(1, 1)])
    torch.testing.assert_close(again, reading)
    torch.testing.assert_close(some[:, 1, 1], effect[:, 1, 1])
    assert some.isnan().sum() == some.numel() - len(some)


def test_one_head_is_asked_of_other_relations(tiny_gpt2, monkeypatch):
    """Of a random model: which head reads most, and what is lost, against the whole tables."""
    model = load_pretrained(str(tiny_gpt2)).requires_grad_(False)
    monkeypatch.setattr(oslo, "predictions", lambda model, prompts: prompts.answers)  # all right
    monkeypatch.setattr(oslo, "read_oslo", lambda name: ({"without": {"head": "L1H2"}}, [], {}))
    found = oslo.relations(model, "any")
    assert found["head"] == "L1H2" and oslo.CAPITALS not in found["templates"]
    template = "The opposite of {} is"
    row, asked = found["templates"][template], oslo.answered(model, template)
    assert row["answers"] == model.tokenizer.token_strings(asked.answers) and len(asked.last) > 3
    reading, effect = oslo.readings_and_effects(model, asked)
    most = [Head(*divmod(int(each.argmax()), 3)) for each in reading]
    assert row["reads most"] == [str(head) for head in most]
    torch.testing.assert_close(torch.tensor(row["reading"]), reading[:, 1, 2], atol=1e-3, rtol=1e-3)
    for head in range(3):
        lost = torch.tensor(row["effect"][f"L1H{head}"])
        torch.testing.assert_close(lost, effect[:, 1, head], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("seed", ["", "-seed1", "-seed2", "-seed3", "-seed4"])
def test_layer_0_has_a_head_that_reads_as_nothing_and_is_missed_most(seed):
    model = load_checkpoint(f"stories-2l{seed}").requires_grad_(False)
    reading, effect = oslo.readings_and_effects(model, measure.name_prompts(model))
    reading, effect = reading.mean(dim=0), effect.mean(dim=0)  # [layer, head]
    layer, head = divmod(int(effect.argmax()), model.config.n_heads)
    assert layer == 0 and effect[layer, head] > 8.5 and reading[layer, head].abs() < 0.4


def test_the_strongest_neuron_writes_the_longest_vector(make_model, some_tokens):
    model = make_model(layer_norm=True, d_mlp=16)
    with torch.no_grad():
        _, cache = model.run_with_cache(some_tokens)
        each = cache["L0.mlp_hidden"][..., None] * model.mlp_values(0)  # [batch, pos, n, d_model]
        found = readings.strongest_value(model, cache, 0)
    longest = each.norm(dim=-1).argmax(dim=-1)
    by_hand = each.gather(2, longest[..., None, None].expand(-1, -1, 1, 8))[:, :, 0]
    torch.testing.assert_close(found, by_hand)


def test_random_readings_share_k_of_v():
    draw = torch.Generator().manual_seed(0)
    ids = torch.randn(2, 400, 200, generator=draw).topk(20).indices
    assert readings.overlap(*ids).mean().item() == pytest.approx(0.1, abs=0.01)
    assert readings.overlap(torch.tensor([0, 2]), torch.tensor([3, 2])).item() == 0.5


# ---- vectors of the stream ----


def test_heads_and_values_add_up(make_model, some_tokens):
    model = make_model()
    _, cache = model.run_with_cache(some_tokens)
    heads = [read(model, cache, "head", Head(1, h)) for h in range(2)]
    torch.testing.assert_close(sum(heads), read(model, cache, "attention output", Head(1, 0)))
    values = read(model, cache, "value", Head(1, 1))
    torch.testing.assert_close(cache["L1.pattern"][:, 1] @ values, heads[1])


def test_queries_and_keys_give_the_scores(make_model, some_tokens):
    """q W_Kᵀ is the key asked for: times what the layer reads it is the score."""
    model = make_model(positions="standard")
    _, cache = model.run_with_cache(some_tokens)
    reads, head = cache["L1.ln1_out"], Head(1, 1)
    scores = cache["L1.scores"][:, 1] * model.config.d_head**0.5
    asked = read(model, cache, "query", head) @ reads.transpose(1, 2)
    answered = reads @ read(model, cache, "key", head).transpose(1, 2)
    torch.testing.assert_close(asked, scores)
    torch.testing.assert_close(answered, scores)
    turned = torch.einsum("bqd,de->bqe", reads, model.head_weights(head).W_K)
    with pytest.raises(AssertionError):  # the wrong axis gives something else
        torch.testing.assert_close(turned @ turned.transpose(1, 2), scores)


@pytest.mark.parametrize("reading", readings.READINGS)
def test_every_reading_has_the_streams_width(make_model, some_tokens, reading):
    model = make_model(layer_norm=True, d_mlp=16)
    _, cache = model.run_with_cache(some_tokens)
    assert read(model, cache, reading, Head(0, 1)).shape == (3, 7, 8)


def test_padded_vectors_go_through_the_whole_w_o(make_model, some_tokens):
    """Padding a head's z and multiplying by all of W_O is what that head adds."""
    model = make_model()
    _, cache = model.run_with_cache(some_tokens)
    W_O = torch.cat([model.head_weights(Head(0, h)).W_O for h in range(2)])
    padded = read(model, cache, "head without W_O", Head(0, 1))
    torch.testing.assert_close(padded @ W_O, read(model, cache, "head", Head(0, 1)))


def test_the_sources_contraction_gives_other_scores(make_model, some_tokens):
    model = make_model(positions="standard")
    _, cache = model.run_with_cache(some_tokens)
    reads, head = cache["L1.ln1_out"], Head(1, 1)
    scores = cache["L1.scores"][:, 1] * model.config.d_head**0.5
    theirs = read(model, cache, "query, the source's way", head)
    W_K = torch.cat([model.head_weights(Head(1, h)).W_K for h in range(2)], dim=1)
    torch.testing.assert_close(theirs, cache["L1.q"][:, :, 1] @ W_K[4:])  # rows of the input
    assert not torch.allclose(theirs @ reads.transpose(1, 2), scores, atol=1e-2)


def test_the_last_block_is_read_as_the_model_reads_it(make_model, some_tokens):
    model = make_model(layer_norm=True, d_mlp=16, positions="standard")
    logits, cache = model.run_with_cache(some_tokens)
    torch.testing.assert_close(lens(model, read(model, cache, "block output", Head(1, 0))), logits)
