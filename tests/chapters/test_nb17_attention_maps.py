"""Notebook 17: prompts and words, words moved about, its pictures and its exercises."""

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.models.sampling import generate
from aot_helpers.reading.heads import head_scores
from aot_helpers.text.batches import repeated_tokens
from chapters.nb17_attention_maps import figures as drawings
from chapters.nb17_attention_maps import measure as study
from figure_checks import check_figures


@pytest.fixture(scope="session")
def model():
    return load_checkpoint("imdb-2l")


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


def test_a_word_of_more_pieces_is_refused(model):
    with pytest.raises(ValueError, match="'average'.*one piece"):
        study.single_pieces(model.tokenizer, ["movie", "average"])


def test_figures_can_be_read():
    ten = torch.rand(11, 11).tril()
    some = torch.rand(40)
    check_figures(
        drawings.name_on_prompts(
            torch.rand(3, 2), ["house", "movie", "film"], ["This {} is", "My {}"], "title"
        ),
        drawings.moved_nouns({"movie": torch.rand(4, 4), "film": torch.rand(4, 4)}, "title"),
        drawings.with_and_without_bos(ten[1:, 1:], ten, list("abcdefghij"), "title"),
        drawings.change_by_token(some, some, {"first": some > 0.8, "second": some < 0.2}, "title"),
        drawings.on_a_text(ten, ["BOS", *"abcdefghi", "\n"], "title"),
        drawings.asleep_and_awake(ten, ten, "title"),
    )


# ---- exercises ----


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


def asleep():
    return {"model": load_checkpoint("imdb-1l-placed"), "head": Head(0, 1)}


def waits():
    text = repeated_tokens(2048, 32, 4, seed=5)
    return {"model": load_checkpoint("imdb-2l"), "head": Head(1, 3), "text": text}


GIVEN = {"17.1": liking, "17.2": asleep, "17.3": waits}
ANSWERS = [
    ("17.1", lambda words: [1] * len(words), "*topic* itself"),
    ("17.1", lambda words: [0] * len(words), "not yet"),
    ("17.1", lambda words: [len(words) - 1] * len(words), "not yet"),
    ("17.1", lambda words: [1], "not yet"),
    ("17.2", "I liked it.\nYou will, too.", "solved"),
    ("17.2", "This movie is great.", "not yet"),
    ("17.2", "This movie is great. " * 30, "not yet"),
    ("17.2", 7, "not yet"),
    ("17.2", ..., "not attempted"),
    ("17.3", (0.9, 0.1), "solved"),
    ("17.3", (0.5, 0.1), "not yet"),
]
