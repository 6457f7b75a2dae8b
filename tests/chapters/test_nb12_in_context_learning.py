"""Notebook 12: pieces of text, names that go on, and its exercises."""

import pytest
import torch

from answers import graded
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.losses import in_context_score
from aot_helpers.text.batches import repeated_tokens, token_stream
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


def test_a_page_is_the_readers_once_it_is_right(check_page):
    check_page("12.2")


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


def shifted(by):
    """Places in the line at which a text began so many tokens before."""
    return lambda line: (line[by:-127] == 0).nonzero()[:, 0].tolist()


def test_the_folded_solution_finds_the_distances(verdict, solution):
    assert verdict("12.2", solution("12.2", "favorite_distances")) == "solved"


def summed(pattern):
    far = range(1, pattern.shape[-1])
    return [max(far, key=lambda d: head.diagonal(-d).sum()) for head in pattern]


ANSWERS = [
    ("12.1", shifted(8), "solved"),
    ("12.1", shifted(3), "not yet"),
    ("12.1", [3, 4, 5], "not yet"),
    ("12.1", list(range(58_700, 58_850)), "not yet"),
    ("12.1", "all", "not yet"),
    ("12.2", lambda pattern: 31, "not yet"),
    ("12.2", lambda pattern: [3, 1, 12, 0], "not yet"),
    ("12.2", summed, "not yet"),
    ("12.2", lambda pattern: None, "not attempted"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(two, unread, verdict, number, answer, expected):
    given = {}
    if number == "12.1":
        line = token_stream(unread, two.tokenizer.bos)
        given = {"line": line, "goal": -0.7, "model": load_checkpoint("stories-0l")}
        answer = answer(line) if callable(answer) else answer
    assert verdict(number, answer, **given) == expected


def test_a_distance_is_that_of_the_mean_not_of_the_sum():
    assert "mean" in graded("12.2", summed)


TEXT = """garden mill honey book river key afternoon night island kite drum cheese fog bell winter
apples thunder bridge morning day clock market harbour tower lamp forest rain sea flute wind sun
soup school snow fog bell"""
SAYS = {"stories-2l": "winter", "fixed-length": "river"}


@pytest.mark.parametrize(
    ("text", "says", "said"),
    [
        (TEXT, SAYS, "solved"),
        (TEXT, dict.fromkeys(SAYS, ...), "not attempted"),
        (TEXT, {"stories-2l": "river", "fixed-length": "winter"}, "stories-2l says 'winter'"),
        (TEXT, {"stories-2l": "winter", "fixed-length": "key"}, "fixed-length says 'river'"),
        ("fog bell winter fog bell", SAYS, "tokens; 32 to 60"),
        (TEXT.replace(" fog bell", "").replace("\n", " "), SAYS, "stands nowhere before"),
        (TEXT, {"stories-2l": "winter"}, "a dict with a word"),
        (["fog"], SAYS, "a dict with a word"),
    ],
)
def test_one_text_unmasks_three_models(two, text, says, said):
    names = "fixed-length", "no-repeats"
    models = {"stories-2l": two} | {n: load_checkpoint(f"stories-2l-{n}") for n in names}
    assert said in graded("12.3", text, says, models=models)


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
    segment = repeated_tokens(1024, 6, 1, two.tokenizer.bos, seed=6)
    check_figures(drawings.written_twice(segment, {"stories-2l": two}, "a title", "a note"))
    story = study.cast(two.tokenizer, renamed=True, n_texts=2).tokens[1]
    check_figures(drawings.excerpt(story, {"stories-2l": two}, 43, "a title"))
    counting = torch.eye(60).roll(9, dims=0).tril()
    striped = drawings.stripes({"counts": counting}, {9: "nine back", 5: "five back"}, "a title")
    assert [text.get_text() for text in striped.axes[0].texts] == ["nine back"]
    check_figures(striped)
    kinds = {"stories-2l": dict.fromkeys(drawings.KIND, 0.5)}
    check_figures(drawings.halves(kinds, kinds, "a title"))
