"""Notebook 17: prompts and words, kinds of heads, words moved about, its pictures."""

import math
from itertools import combinations

import pytest
import torch

from aot_helpers.models.losses import copy_losses
from aot_helpers.models.protocol import Head
from aot_helpers.models.sampling import generate
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import HEAD_PATTERNS, head_scores
from aot_helpers.teaching.exercises import grade
from aot_helpers.text.batches import repeated_tokens
from chapters.nb17_attention_maps import ablation as costs
from chapters.nb17_attention_maps import by_place as moving
from chapters.nb17_attention_maps import exercises as solutions
from chapters.nb17_attention_maps import figures as drawings
from chapters.nb17_attention_maps import imported
from chapters.nb17_attention_maps import measure as study
from figure_checks import check_figures


@pytest.fixture(scope="session")
def model():
    return study.load("imdb-2l")


@pytest.fixture(scope="session")
def maps(model):
    return study.read(model, study.written(model, study.openings()[:4], seed=3))


def test_words_are_made_of_their_pieces(model):
    text = "This movie is an average, filmed twice.\nNo."
    tokens = model.tokenizer.encode(text, bos=True)
    found = study.text_of(model.tokenizer, tokens)
    expected = "This|movie|is|an|average|,|filmed|twice|.|\n|No|."
    assert found.words == expected.split("|")
    pieces = model.tokenizer.token_strings(tokens)
    for number, word in enumerate(found.words):
        own = [p for p, n in zip(pieces, found.word_of, strict=True) if n == number]
        assert "".join(own).strip(" ") == word


def test_a_prompt_is_continued_by_so_many_words(model, maps):
    for prompt, (text, *_) in zip(study.openings(), maps, strict=False):
        assert text.words[:3] == prompt.split() and len(text.words) == 10
        assert len(text.tokens) == len(text.word_of)
        assert text == study.text_of(model.tokenizer, text.tokens)._replace(tokens=text.tokens)


def test_texts_drawn_at_once_are_those_drawn_one_after_the_other(model):
    starts = [model.tokenizer.encode(each, bos=True) for each in study.openings()[:5]]
    assert len({len(start) for start in starts}) > 1
    found = study.continued(model, starts, 6, [7, 8, 9, 10, 11])
    for i, (start, longer) in enumerate(zip(starts, found, strict=True)):
        assert torch.equal(longer, generate(model, start, 6, seed=7 + i))


def test_a_model_that_writes_one_endless_word_is_refused(model, monkeypatch):
    def no_end(model, starts, n, seeds):
        return starts

    monkeypatch.setattr(study, "continued", no_end)
    with pytest.raises(ValueError, match="'This movie is'.*another seed"):
        study.written(model, ["This movie is"])


def test_attention_between_words_is_the_mean_over_their_pieces():
    torch.manual_seed(0)
    pattern = torch.rand(2, 6, 6).tril()
    word_of = [-1, 0, 1, 1, 2, 2]
    found = study.by_words(pattern, word_of)
    for head in range(2):
        for query in range(3):
            own = []
            for key in range(3):
                cells = [
                    pattern[head, q, k].item()
                    for q in range(6)
                    for k in range(6)
                    if word_of[q] == query and word_of[k] == key
                ]
                own.append(sum(cells) / len(cells))
            assert found[head, query].tolist() == pytest.approx([v / sum(own) for v in own])


def test_kinds_agree_with_the_patterns_of_the_package():
    n = 9
    for kind, name in {"previous": "previous", "first": "first"}.items():
        package = HEAD_PATTERNS[name](torch.arange(n)[None])[0]
        assert torch.equal(study.targets_of(kind, n)[3:], package[3:])


@pytest.mark.parametrize("kind", study.KINDS)
def test_kinds_differ_from_the_second_query_that_counts(kind):
    own = study.targets_of(kind, 10)
    assert not own[:3].any() and not own.triu(1).any()
    others = {k: study.targets_of(k, 10) for k in study.KINDS if k != kind}
    same = {q: [k for k in others if torch.equal(own[q], others[k][q])] for q in range(3, 10)}
    assert same.pop(3) == {"topic": ["two back"], "two back": ["topic"]}.get(kind, [])
    assert not any(same.values())


@pytest.mark.parametrize("kind", study.KINDS)
def test_chance_is_what_random_heads_hit(kind):
    torch.manual_seed(1)
    targets = study.targets_of(kind, 8)
    found, chance = study.hits(torch.rand(4000, 8, 8).tril(), targets)
    assert found.mean(dim=0).tolist() == pytest.approx(chance.tolist(), abs=0.03)
    queries = [q for q in range(8) if targets[q].any()]
    k = int(targets[queries[0]].sum())
    ways = [sum(1 for _ in combinations(range(q + 1), k)) for q in queries]
    assert chance.tolist() == pytest.approx([1 / n for n in ways])


@pytest.mark.parametrize("kind", study.KINDS)
def test_a_head_made_so_fits_and_one_of_chance_does_not(kind, maps):
    texts = [each.text for each in maps]
    assert study.fits(study.planted(texts, kind), kind).item() == 1
    torch.manual_seed(2)
    chance = [study.Maps(t, torch.rand(500, 10, 10).tril(), None) for t in texts]
    assert abs(study.fits(chance, kind).mean()) < 0.03


def test_heads_that_were_put_there_can_be_left_out():
    model = study.load("imdb-2l")
    texts = study.read(model, study.written(model, study.openings()[:1]))
    heads = torch.stack([study.fits(texts, kind) for kind in study.KINDS])
    assert study.put_there("imdb-2l") == [int(heads.max(dim=0).values.argmax())]
    assert study.best_fit(texts) == heads.max().item() == 1
    assert study.best_fit(texts, [1]) == heads[:, [0, *range(2, 8)]].max().item() < 1
    assert study.put_there("wikitext-1l") == []


def test_an_unknown_kind_is_named_with_those_there_are():
    with pytest.raises(ValueError, match="'topics'.*topic"):
        study.targets_of("topics", 8)


def test_reading_agrees_with_the_scores_of_the_package(model):
    tokens = model.tokenizer.encode(" movie film story plot actor book", bos=True)
    text = study.text_of(model.tokenizer, tokens)
    assert len(text.words) == len(tokens) - 1  # a piece a word
    (each,) = study.read(model, [text])
    targets = torch.zeros(1, 7, 7, dtype=torch.bool)
    targets[:, 1:, 0] = True
    on_bos = head_scores(model, tokens[None], targets).scores.flatten()
    torch.testing.assert_close(each.on_bos, on_bos)
    torch.testing.assert_close(each.words.sum(dim=-1), torch.ones(8, 6, dtype=torch.double))


def test_a_change_of_nothing_costs_nothing_and_of_the_logits_what_kl_says(model):
    tokens = torch.stack([model.tokenizer.encode("This movie is", bos=True)])
    logits = model(tokens)
    assert costs.divergence(logits, logits) == 0
    flat = costs.divergence(logits, 0 * logits)
    p = logits.softmax(dim=-1)
    assert flat == pytest.approx((math.log(2048) + (p * p.log()).sum(-1)).mean().item(), rel=1e-4)


def test_costs_of_each_head_are_those_of_its_ablation(model):
    tokens, other = (repeated_tokens(2048, 8, 3, seed=seed) for seed in (1, 2))
    by_copy = costs.copy_costs(model, tokens, other)
    by_zero = costs.prompt_costs(model, tokens, other, "zero")
    assert by_copy.shape == (8, 2) and by_zero.shape == (8,)
    without = {"L1.z": lambda z: z * (torch.arange(4) != 3)[:, None]}
    expected = costs.divergence(model(tokens), model(tokens, edits=without))
    assert by_zero[7].item() == pytest.approx(expected, rel=1e-4)
    mean = model.run_with_cache(other)[1]["L1.z"][:, :, 3].mean(dim=(0, 1))

    def put(z):
        return torch.cat([z[:, :, :3], mean.expand_as(z[:, :, 3])[:, :, None]], dim=2)

    lost = torch.tensor(copy_losses(model, tokens, {"L1.z": put}))
    torch.testing.assert_close(by_copy[7], lost - torch.tensor(copy_losses(model, tokens)))


def test_a_word_of_more_pieces_is_refused(model):
    with pytest.raises(ValueError, match="'average'.*one piece"):
        moving.single_pieces(model.tokenizer, ["movie", "average"])


@pytest.mark.parametrize(("what", "index"), [("word", 0.75), ("place", -0.75)])
def test_the_index_tells_what_a_made_head_follows(what, index):
    table = moving.place_table(moving.made_to_follow(what))
    assert moving.word_or_place(table) == pytest.approx(index)
    even = torch.full((24, 4), 0.25)
    assert moving.word_or_place(moving.place_table(even)) == pytest.approx(0)
    with pytest.raises(ValueError, match="'topic'"):
        moving.made_to_follow("topic")


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
        own = [seen[i] for i, order in enumerate(moving.ORDERS) if order[place] == 2]
        assert len(own) == 6
        torch.testing.assert_close(table[place], sum(own) / 6)


@pytest.mark.parametrize("positions", ["relative", "none", "standard"])
def test_scores_are_word_and_distance_unless_positions_are_in_the_stream(model, positions):
    torch.manual_seed(4)
    config = ModelConfig(2048, 1, 32, 2, 16, 16, positions, layer_norm=False)
    tokens = moving.in_all_orders(model.tokenizer, ["movie"])
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
    heads = study.planted([each.text for each in maps], "topic")
    assert imported.named_fits(heads).tolist() == [1]
    torch.manual_seed(6)
    texts = [each.text for each in maps] * 20
    chance = [study.Maps(text, torch.rand(30, 10, 10).tril(), None) for text in texts]
    assert abs(imported.named_fits(chance).mean()) < 0.03


def test_the_chance_of_more_counts_pairs():
    some, others = torch.tensor([1.0, 3, 3]), torch.tensor([3.0, 2])
    assert moving.chance_of_more(some, others) == pytest.approx((0 + 0 + 2 * (0.5 + 1)) / 6)


ANSWERS = [
    ("17.1", [solutions.rival], "solved"),
    ("17.1", [lambda words: [1] * len(words)], "not yet"),  # *topic* itself
    ("17.1", [lambda words: [0] * len(words)], "not yet"),
    ("17.1", [lambda words: [len(words) - 1] * len(words)], "not yet"),
    ("17.1", [lambda words: [1]], "not yet"),
    ("17.1", [lambda words: None], "not attempted"),
    ("17.2", ["I liked it.\nYou will, too."], "solved"),
    ("17.2", ["This movie is great."], "not yet"),
    ("17.2", ["This movie is great. " * 30], "not yet"),
    ("17.2", [7], "not yet"),
    ("17.2", [...], "not attempted"),
    ("17.3", [0.9, 0.1], "solved"),
    ("17.3", [0.5, 0.1], "not yet"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(model, placed, liking, verdict, number, answer, expected):
    text = repeated_tokens(2048, 32, 4, seed=5)
    asleep = {"model": placed, "head": Head(0, 1)}
    waits = {"model": model, "head": Head(1, 3), "text": text}
    given = {"17.1": liking, "17.2": asleep, "17.3": waits}
    assert verdict(number, *answer, **given[number]) == expected


def test_the_name_itself_is_no_rival(capsys, liking):
    grade("17.1", lambda words: [1] * len(words), **liking)
    assert "*topic* itself" in capsys.readouterr().out


@pytest.fixture(scope="session")
def placed():
    return study.load("imdb-1l-placed")


@pytest.fixture(scope="session")
def liking():
    """Maps of one head that attends to a noun that it likes, or else to the first word."""
    texts, maps = [], []
    for topic, at in {"movie": 1, "plot": 0, "girl": 0, "scene": 0}.items():
        words = torch.full((10, 10), 0.01).tril()
        words[torch.arange(1, 10), at] = 1
        said = f"My {topic} is so on and off a b c".split()
        texts.append(study.Text(torch.arange(11), [-1, *range(10)], said))
        maps.append(words)
    return {"one": texts[0].words, "texts": texts, "maps": torch.stack(maps)}


def test_a_head_that_wakes_at_line_breaks_is_found(placed):
    found = study.sleepers(placed, ["This movie is very good.\n\nThe"])
    assert "L0H1" in found["rest on BOS"]
    assert "L0H1" in found["of these, wake at line breaks"]


def test_figures_can_be_read(maps):
    text, words, _ = maps[0]
    rates = {"the topic": torch.rand(3, 2), "a wrong name": torch.rand(3, 2)}
    ten = torch.rand(11, 11).tril()
    some = torch.rand(40)
    check_figures(
        drawings.writing(text.words, {"L0H0": words[0], "L1H3": words[7]}, 6, "title"),
        drawings.name_on_prompts(
            rates, ["house", "movie", "film"], ["This {} is", "My {}"], "title"
        ),
        drawings.moved_nouns({"movie": torch.rand(4, 4), "film": torch.rand(4, 4)}, "title"),
        drawings.with_and_without_bos(ten[1:, 1:], ten, list("abcdefghij"), "title"),
        drawings.change_by_token(some, some, some > 0.5, ("other", "line break"), "title"),
        drawings.on_a_text(ten, ["BOS", *"abcdefghi", "\n"], "title"),
        drawings.asleep_and_awake(ten, ten, "title"),
        drawings.spread({"one": [0.1, 0.1, 0.5]}, {"one": 0.23}, "title"),
    )
