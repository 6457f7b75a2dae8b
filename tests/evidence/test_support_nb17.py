"""Evidence of notebook 17: kinds of heads and their costs, words moved about, a GPT-2, figures."""

import math
from itertools import combinations

import pytest
import torch

from aot_helpers.base import results
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.losses import copy_losses
from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import HEAD_PATTERNS
from aot_helpers.reading.interventions import ablate
from aot_helpers.text.batches import repeated_tokens
from chapters.nb17_attention_maps import measure as study
from evidence.support.nb17 import by_place as moving
from evidence.support.nb17 import heads, imported, reviews, rivals


@pytest.fixture(scope="session")
def model():
    return load_checkpoint("imdb-2l")


@pytest.fixture(scope="session")
def maps(model):
    return study.read(model, study.written(model, study.openings()[:4], seed=3))


def test_kinds_agree_with_the_patterns_of_the_package():
    n = 9
    for kind, name in {"previous": "previous", "first": "first"}.items():
        package = HEAD_PATTERNS[name](torch.arange(n)[None])[0]
        assert torch.equal(heads.targets_of(kind, n)[3:], package[3:])


@pytest.mark.parametrize("kind", heads.KINDS)
def test_kinds_differ_from_the_second_query_that_counts(kind):
    own = heads.targets_of(kind, 10)
    assert not own[:3].any() and not own.triu(1).any()
    others = {k: heads.targets_of(k, 10) for k in heads.KINDS if k != kind}
    same = {q: [k for k in others if torch.equal(own[q], others[k][q])] for q in range(3, 10)}
    assert same.pop(3) == {"topic": ["two back"], "two back": ["topic"]}.get(kind, [])
    assert not any(same.values())


@pytest.mark.parametrize("kind", heads.KINDS)
def test_chance_is_what_random_heads_hit(kind):
    torch.manual_seed(1)
    targets = heads.targets_of(kind, 8)
    found, chance = heads.hits(torch.rand(4000, 8, 8).tril(), targets)
    assert found.mean(dim=0).tolist() == pytest.approx(chance.tolist(), abs=0.03)
    queries = [q for q in range(8) if targets[q].any()]
    k = int(targets[queries[0]].sum())
    ways = [sum(1 for _ in combinations(range(q + 1), k)) for q in queries]
    assert chance.tolist() == pytest.approx([1 / n for n in ways])


@pytest.mark.parametrize("kind", heads.KINDS)
def test_a_head_made_so_fits_and_one_of_chance_does_not(kind, maps):
    texts = [each.text for each in maps]
    assert heads.fits(heads.planted(texts, kind), kind).item() == 1
    torch.manual_seed(2)
    chance = [study.Maps(t, torch.rand(500, 10, 10).tril(), None) for t in texts]
    assert abs(heads.fits(chance, kind).mean()) < 0.03


def test_heads_that_were_put_there_can_be_left_out():
    model = load_checkpoint("imdb-2l")
    texts = study.read(model, study.written(model, study.openings()[:1]))
    found = torch.stack([heads.fits(texts, kind) for kind in heads.KINDS])
    assert heads.put_there("imdb-2l") == [int(found.max(dim=0).values.argmax())]
    assert heads.best_fit(texts) == found.max().item() == 1
    assert heads.best_fit(texts, [1]) == found[:, [0, *range(2, 8)]].max().item() < 1
    assert heads.put_there("wikitext-1l") == []


def test_a_change_of_nothing_costs_nothing_and_of_the_logits_what_kl_says(model):
    tokens = torch.stack([model.tokenizer.encode("This movie is", bos=True)])
    logits = model(tokens)
    assert heads.divergence(logits, logits) == 0
    flat = heads.divergence(logits, 0 * logits)
    p = logits.softmax(dim=-1)
    assert flat == pytest.approx((math.log(2048) + (p * p.log()).sum(-1)).mean().item(), rel=1e-4)


def test_costs_of_each_head_are_those_of_its_ablation(model):
    tokens, other = (repeated_tokens(2048, 8, 3, seed=seed) for seed in (1, 2))
    by_copy = heads.copy_costs(model, tokens, other)
    by_zero = heads.prompt_costs(model, tokens, other, "zero")
    assert by_copy.shape == (8, 2) and by_zero.shape == (8,)
    without = {"L1.z": lambda z: z * (torch.arange(4) != 3)[:, None]}
    expected = heads.divergence(model(tokens), model(tokens, edits=without))
    assert by_zero[7].item() == pytest.approx(expected, rel=1e-4)
    mean = model.run_with_cache(other)[1]["L1.z"][:, :, 3].mean(dim=(0, 1))

    def put(z):
        return torch.cat([z[:, :, :3], mean.expand_as(z[:, :, 3])[:, :, None]], dim=2)

    lost = torch.tensor(copy_losses(model, tokens, {"L1.z": put}))
    torch.testing.assert_close(by_copy[7], lost - torch.tensor(copy_losses(model, tokens)))


@pytest.mark.parametrize(("what", "index"), [("word", 0.75), ("place", -0.75)])
def test_the_index_tells_what_a_made_head_follows(what, index):
    table = moving.place_table(moving.made_to_follow(what))
    assert moving.word_or_place(table) == pytest.approx(index)
    even = torch.full((24, 4), 0.25)
    assert moving.word_or_place(moving.place_table(even)) == pytest.approx(0)


@pytest.mark.parametrize(("what", "index"), [("word", 0.75), ("place", 0)])
def test_a_made_word_gets_more_than_others_at_its_place(what, index):
    table = moving.place_table(moving.made_to_follow(what))
    own, others = moving.word_among_others(table)
    assert ((own - others) / (own + others)).tolist() == pytest.approx([index] * 4)
    torch.manual_seed(5)
    table = torch.rand(4, 4)
    _, others = moving.word_among_others(table)
    assert others[1].item() == pytest.approx(sum(table[i, 1].item() for i in (0, 2, 3)) / 3)


def test_places_are_averaged_over_the_orders_of_the_other_words():
    torch.manual_seed(3)
    seen = torch.rand(24, 4)
    table = moving.place_table(seen, word=2)
    for place in range(4):
        own = [seen[i] for i, order in enumerate(study.ORDERS) if order[place] == 2]
        assert len(own) == 6
        torch.testing.assert_close(table[place], sum(own) / 6)


@pytest.mark.parametrize("positions", ["relative", "none", "standard"])
def test_scores_are_word_and_distance_unless_positions_are_in_the_stream(model, positions):
    torch.manual_seed(4)
    config = ModelConfig(2048, 1, 32, 2, 16, 16, positions, layer_norm=False)
    tokens = study.in_all_orders(model.tokenizer, ["movie"])
    one = AttentionOnlyTransformer(config)
    if positions == "relative":
        torch.nn.init.normal_(one.blocks[0].attn.b_rel)
    left = moving.left_by_word_and_distance(one, tokens).item()
    assert left > 1e-2 if positions == "standard" else left < 1e-9


def test_constants_bring_a_model_that_knows_nothing_to_a_count_of_tokens(model):
    texts = ["movie film story plot " * 20, "no", "actor book " * 40]
    rows = imported.rows_of(texts, model.tokenizer, 2)
    assert rows.shape == (2, 64) and (rows[:, 0] == model.tokenizer.bos).all()
    with pytest.raises(ValueError, match="1 of 2 texts have 64"):
        imported.rows_of(texts[:2], model.tokenizer, 2)
    streams = imported.streams_after(model, rows, [0, 2])
    stream = streams[2]
    assert torch.equal(stream, model.run_with_cache(rows)[1]["final_resid"][:, :-1])
    torch.testing.assert_close(
        imported.loss_of(model, stream, rows), model_loss(model, rows), rtol=1e-4, atol=0
    )
    nothing = torch.zeros_like(streams[0])
    assert imported.loss_of(model, nothing, rows) == pytest.approx(math.log(2048), rel=1e-4)
    given = imported.fit_constants(model, nothing, rows)
    share = torch.bincount(rows[:, 1:].flatten()) / rows[:, 1:].numel()
    counted = -(share * share.clamp(min=1e-9).log()).sum().item()
    assert imported.loss_of(model, nothing, rows, *given) == pytest.approx(counted, abs=0.1)


def model_loss(model, rows):
    logits = model(rows)[:, :-1].transpose(1, 2)
    return torch.nn.functional.cross_entropy(logits, rows[:, 1:]).item()


def test_a_kind_is_chosen_on_one_half_and_measured_on_the_other(maps):
    made = heads.planted([each.text for each in maps], "topic")
    assert imported.named_fits(made).tolist() == [1]
    torch.manual_seed(6)
    texts = [each.text for each in maps] * 20
    chance = [study.Maps(text, torch.rand(30, 10, 10).tril(), None) for text in texts]
    assert abs(imported.named_fits(chance).mean()) < 0.03


def test_the_chance_of_more_counts_pairs():
    some, others = torch.tensor([1.0, 3, 3]), torch.tensor([3.0, 2])
    assert moving.chance_of_more(some, others) == pytest.approx((0 + 0 + 2 * (0.5 + 1)) / 6)


def test_a_rival_is_scored_on_the_openings_that_did_not_choose_it():
    most = torch.zeros(24, 10, 10, dtype=torch.long)  # every row looks at the first word …
    nouns = torch.full_like(most, -1)
    nouns[:, :, 1] = torch.arange(24)[:, None]
    assert rivals.rule_hits(most, nouns, []).tolist() == [1.0] * 10
    assert rivals.rule_hits(most, nouns, [0, 1, 2]).tolist() == pytest.approx([21 / 24] * 10)
    most[:7] = 1  # … but those about seven nouns at the second
    found = rivals.over_halves(most, nouns)
    assert found.shape == (252, 3)
    torch.testing.assert_close(found[0], torch.tensor([1, 7 / 24, 17 / 24], dtype=torch.double))
    lot = rivals.over_halves(most, nouns, torch.Generator().manual_seed(0))
    assert lot[:, 0].mean() < 0.9 and torch.equal(lot[:, 1:], found[:, 1:])


def test_windows_begin_each_review_after_bos(model, monkeypatch):
    monkeypatch.setattr(reviews, "N_REVIEWS", 2)
    text = " movie story" * 7  # 14 tokens
    rows = reviews.windows([text, " movie", text], model.tokenizer, n_ctx=8)
    movie, story = model.tokenizer.encode(" movie story").tolist()
    bos = model.tokenizer.bos
    assert rows[0].tolist() == [bos, movie, story, movie, story, movie, story, movie]
    assert rows[1].tolist() == [bos, story, movie, story, movie, story, movie, story]
    assert torch.equal(rows[:2], rows[2:])
    with pytest.raises(ValueError, match="1 reviews are long enough, 2 are needed"):
        reviews.windows([text], model.tokenizer, n_ctx=8)


def test_the_second_break_of_a_blank_line_follows_a_first():
    tokens = torch.tensor([[9, 5, 1, 1, 5, 1, 5], [9, 1, 1, 1, 5, 5, 5]])
    is_break, second = reviews.line_breaks(tokens, 1)
    assert is_break[0].tolist() == [False, True, True, False, True, False]
    assert second.int().tolist() == [[0, 1, 0, 0, 0], [1, 0, 0, 0, 0]]


def test_a_head_left_out_changes_what_it_wrote():
    sleeper = load_checkpoint("imdb-1l-placed")
    tokens = sleeper.tokenizer.encode("It is good.\n\nThe story is good.\n\nThe", bos=True)
    rows = torch.stack([tokens, tokens.flip(0)])
    moved, added = reviews.changes(sleeper, rows, [1, 4])
    edits = ablate(sleeper, [Head(0, 4)], "mean", rows)
    whole, other = (sleeper(rows, edits=each).log_softmax(dim=-1) for each in ({}, edits))
    kl = (whole.exp() * (whole - other)).sum(dim=-1)
    torch.testing.assert_close(moved[1], kl[:, 1:])
    came = torch.gather(whole - other, 2, rows.roll(-1, 1)[..., None])[..., 0]
    torch.testing.assert_close(added[1], came[:, 1:-1])


def test_tokens_at_which_a_head_is_awake_most_come_first(model):
    movie, story, the = model.tokenizer.encode(" movie story the").tolist()
    tokens = torch.tensor([[movie] * 10 + [story] * 20 + [the] * 9])
    awake = torch.zeros_like(tokens, dtype=torch.bool)
    awake[0, :5] = awake[0, 10:13] = awake[0, 30:] = True
    wanted = [(" movie", 5, 10), (" story", 3, 20)]  # " the" is read too rarely
    assert reviews.where_awake(tokens, awake, model.tokenizer) == wanted


def test_the_results_of_reviews_have_every_head_that_rests():
    found = results.read("reviews")["models"]
    assert [each["model"] for each in found] == reviews.MODELS
    for each in found:
        assert each["tokens"] == reviews.N_REVIEWS * reviews.PER_REVIEW * 63
        shares = [head["elsewhere"] for head in each["heads"]]
        named = [head["elsewhere"] for head in each["heads"] if "change" in head]
        assert named == [s for s in shares if s >= reviews.RESTS or s == min(shares)]
