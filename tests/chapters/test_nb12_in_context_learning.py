"""Notebook 12: pieces of text, names that go on, and its exercises."""

import functools

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.losses import in_context_score
from aot_helpers.text.batches import token_stream
from aot_helpers.text.corpora import load_corpus
from chapters.nb12_in_context_learning import exercises
from chapters.nb12_in_context_learning import figures as drawings
from chapters.nb12_in_context_learning import measure as study
from figure_checks import check_figures


@pytest.fixture(scope="session")
def two(stories):
    return stories


@pytest.fixture(scope="session")
def unread(two):
    texts = load_corpus("stories", "test", quiet=True).texts
    return two.tokenizer.encode_many(texts)


@pytest.fixture(scope="session")
def pieces(two, unread):
    return study.cut(unread, 60, two.tokenizer.bos)


def test_pieces_are_the_line_of_texts_cut_in_order(two, unread, pieces):
    line = token_stream(unread, two.tokenizer.bos)
    assert pieces.shape == (60, 128) and (pieces[:, 0] == two.tokenizer.bos).all()
    assert torch.equal(pieces[:, 1:].flatten(), line[: 60 * 127])
    with pytest.raises(ValueError, match="pieces there are; got 9999"):
        study.cut(unread, 9999, 0)


def test_the_exercises_score_is_the_packages():
    losses = torch.rand(4, 127)
    package = in_context_score(losses, (4, 12), (96, 127)).mean()
    assert exercises._in_context_score(losses).item() == pytest.approx(package.item(), abs=1e-6)


def test_names_go_on_where_they_were_read_before(two):
    plain = study.cast(two.tokenizer, n_texts=5)
    renamed = study.cast(two.tokenizer, renamed=True, n_texts=5)
    assert plain.tokens.shape == (5, 128) and plain.friend.shape == (5, 128, 128)
    for cast in (plain, renamed):
        for follows in (cast.hero, cast.friend):
            for text, query, key in follows.nonzero().tolist():
                assert key <= query and cast.tokens[text, key - 1] == cast.tokens[text, query]
                assert cast.tokens[text, key] == cast.tokens[text, query + 1]
    words = two.tokenizer.token_strings(renamed.tokens[renamed.friend.any(dim=-1)])
    assert {word.strip() for word in words} <= set(study.WORDS)
    assert all(len(two.tokenizer.encode(f" {word}")) == 1 for word in study.WORDS)


def summed(pattern):
    far = range(1, pattern.shape[-1])
    return [max(far, key=lambda d: head.diagonal(-d).sum()) for head in pattern]


TEXT = """garden mill honey book river key afternoon night island kite drum cheese fog bell winter
apples thunder bridge morning day clock market harbour tower lamp forest rain sea flute wind sun
soup school snow fog bell"""
SAYS = {"stories-2l": "winter", "fixed-length": "river"}


@functools.cache
def line():
    """The unread stories in one line."""
    tokenizer = load_checkpoint("stories-2l").tokenizer
    texts = load_corpus("stories", "test", quiet=True).texts
    return token_stream(tokenizer.encode_many(texts), tokenizer.bos)


def shifted(by):
    """Places in the line at which a text began so many tokens before."""
    return (line()[by:-127] == 0).nonzero()[:, 0].tolist()


def three_models():
    names = {"stories-2l": "stories-2l"}
    names |= {each: f"stories-2l-{each}" for each in ("fixed-length", "no-repeats")}
    return {"models": {name: load_checkpoint(each) for name, each in names.items()}}


GIVEN = {
    "12.1": lambda: {"line": line(), "goal": -0.7, "model": load_checkpoint("stories-0l")},
    "12.3": three_models,
}
ANSWERS = [
    ("12.1", shifted(8), "solved"),
    ("12.1", shifted(3), "not yet"),
    ("12.1", [3, 4, 5], "not yet"),
    ("12.1", list(range(58_700, 58_850)), "not yet"),
    ("12.1", "all", "not yet"),
    ("12.2", lambda pattern: 31, "not yet"),
    ("12.2", lambda pattern: [3, 1, 12, 0], "not yet"),
    ("12.2", lambda pattern: ["x"], "A distance for each head is wanted"),
    ("12.2", lambda p: [d - 1 for d in exercises.favorite_distances(p)], "one too small"),
    ("12.2", summed, "Take the mean over the queries"),
    ("12.3", (TEXT, SAYS), "solved"),
    ("12.3", (TEXT, dict.fromkeys(SAYS, ...)), "not attempted"),
    ("12.3", (TEXT, {"stories-2l": "river", "fixed-length": "winter"}), "stories-2l says 'winter'"),
    ("12.3", (TEXT, {"stories-2l": "winter", "fixed-length": "key"}), "fixed-length says 'river'"),
    ("12.3", ("fog bell winter fog bell", SAYS), "tokens; 32 to 60"),
    ("12.3", (TEXT.replace(" fog bell", "").replace("\n", " "), SAYS), "stands nowhere before"),
    ("12.3", (TEXT, {"stories-2l": "winter"}), "A dict with the keys"),
    ("12.3", (["fog"], SAYS), "A text is wanted"),
]


def test_figures_can_be_read(two):
    tokens, losses = [f" word{i}" for i in range(30)], {"stories-2l": torch.rand(3, 127)}
    check_figures(drawings.more_context(tokens, {4: torch.rand(4), 26: torch.rand(4)}, "a title"))
    score = drawings.by_index(losses, "a title", ((5, 12), (97, 127)), score_of="stories-2l")
    assert len(score.axes[0].lines) == 3  # means, losses, the level of the early tokens
    crowded = drawings.by_index(losses, "a title", crowd=[torch.rand(3, 127)] * 4)
    assert len(crowded.axes[0].lines) == 6
    copied = {"stories-2l": {8: 1.0, 63: 0.5}}
    ranges = ((5, 12), (97, 127))
    check_figures(drawings.alike_and_unlike(losses, copied, ranges, "a title"))
    story = study.cast(two.tokenizer, renamed=True, n_texts=2).tokens[1]
    check_figures(drawings.excerpt(story, {"stories-2l": two}, 43, "a title"))
    counting = torch.eye(60).roll(9, dims=0).tril()
    striped = drawings.stripes({"counts": counting}, {9: "nine back", 5: "five back"}, "a title")
    assert [text.get_text() for text in striped.axes[0].texts] == ["nine back"]
    check_figures(striped)
