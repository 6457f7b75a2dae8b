"""Notebook 12: losses with more or less text, a copying rule, heads' roles, its exercises."""

import pytest
import torch

from answers import graded
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.losses import in_context_score
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate
from aot_helpers.text.batches import repeated_tokens, token_stream
from aot_helpers.text.corpora import load_corpus
from chapters.nb12_in_context_learning import exercises
from chapters.nb12_in_context_learning import figures as drawings
from chapters.nb12_in_context_learning import measure as study
from chapters.nb12_in_context_learning import over_training as training
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


def test_with_the_whole_context_the_last_losses_are_those_of_all_places(two, pieces):
    whole = study.last_losses(two, pieces, 119)
    assert torch.allclose(whole, study.losses_of(two, pieces)[:, -8:].mean(dim=1), atol=1e-5)
    short = study.last_losses(two, pieces, 4)
    assert torch.allclose(study.gain_by_context(two, pieces), short - whole)
    with pytest.raises(ValueError, match="0 to 119, what these texts have; got 120"):
        study.last_losses(two, pieces, 120)


def test_without_layers_context_is_worth_nothing_and_foreign_context_keeps_the_last_tokens(pieces):
    blind = load_checkpoint("stories-0l")
    assert study.gain_by_context(blind, pieces).abs().max() < 1e-4
    foreign = study.with_foreign_context(pieces)
    assert torch.equal(foreign[:, -12:], pieces[:, -12:])
    assert torch.equal(foreign[:30, :-12], pieces[30:, :-12])
    assert torch.equal(foreign[30:, :-12], pieces[:30, :-12])


def rule(tokens):
    for n in (2, 1):
        for end in range(len(tokens) - 1, n - 1, -1):
            if tokens[end - n : end] == tokens[-n:]:
                return tokens[end], n
    return -1, 0


def test_guesses_are_those_of_the_rule_walked_token_by_token(pieces):
    guess, matched = study.guesses(pieces[:5])
    for i, text in enumerate(pieces[:5].tolist()):
        expected = [rule(text[: n + 1]) for n in range(127)]
        assert [(g, m) for g, m in zip(guess[i].tolist(), matched[i].tolist(), strict=True)] == [
            (g, m) for g, m in expected
        ]


def test_a_copier_brings_a_blind_model_far_and_a_rule_that_is_never_right_nothing(two, pieces):
    losses = study.losses_of(load_checkpoint("stories-0l"), pieces)
    helped = study.with_copier(losses, pieces, two.config.d_vocab)
    assert helped.mean() < losses.mean() - 0.5
    never = torch.zeros_like(losses, dtype=torch.float64)
    group = study.trust_groups(pieces, never.long(), two.config.d_vocab)
    same = study.mixed_losses((-losses.double()).exp(), never, group)
    assert torch.allclose(same, losses.double(), atol=1e-5)  # every w is 0
    assert study.share_of_way(losses, losses, helped) == 0
    assert study.share_of_way(helped, losses, helped) == 1


def test_roles_share_out_all_heads_and_their_removal_flattens_the_context(two, pieces):
    repeats = repeated_tokens(two.config.d_vocab, 50, 20, two.tokenizer.bos, seed=3)
    induction, previous, others = study.roles(two, repeats)
    assert (induction, previous) == ([Head(1, 0), Head(1, 2)], [Head(0, 3)])
    assert sorted(induction + previous + others) == [Head(i, h) for i in range(2) for h in range(4)]
    edits = ablate(two, induction, "mean", pieces[-20:])
    left, whole = (study.gain_by_context(two, pieces, each).mean() for each in (edits, None))
    assert left < 0.3 * whole


def test_patterns_are_averaged_over_texts_and_guesses_are_the_largest_logits(two, pieces):
    pattern, guesses = study.pattern_and_guesses(two, pieces[:3], Head(1, 2))
    runs = [two.run_with_cache(text[None]) for text in pieces[:3]]
    expected = sum(cache["L1.pattern"][0, 2] for _, cache in runs) / 3
    torch.testing.assert_close(pattern, expected)
    assert torch.equal(guesses, torch.cat([logits.argmax(dim=-1) for logits, _ in runs]))


def test_logs_give_scores_at_a_step_and_the_largest_gain_in_a_stretch():
    score, induction, copied = study.at_step("stories-2l", 1500)
    assert score < -1.3 and induction > 0.8 and copied > 0.9
    copies = [
        study.largest_gain(name, lambda found: found["copy accuracy"]["24"])
        for name in ("stories-1l", "stories-1l-smeared")
    ]
    assert copies[0] < 0.1 < 0.5 < copies[1]
    assert study.largest_gain("stories-1l", lambda found: -found["text"], 4000) > 2


def test_a_loss_that_falls_evenly_by_the_log_of_the_index_saves_as_much_at_each_doubling():
    middles = torch.cat([torch.full((b - a,), (a * (b - 1)) ** 0.5) for a, b in training.RANGES])
    losses = 5 - 0.3 * middles.log2().expand(2, 4, 127)  # [step, text, pos]
    assert torch.allclose(training.per_doubling(losses), torch.tensor(0.3), atol=1e-4)
    assert training.per_doubling(losses[0]).shape == (7,)


def test_the_largest_rise_is_sought_within_its_steps():
    steps, values = [0, 100, 200, 500, 600], [0.0, 0.1, 0.5, 1.5, 1.4]
    assert study.largest_rise(steps, values) == (0.5, 0)
    assert study.largest_rise(steps, values, within=300) == (1.0, 200)


def test_turns_of_paths_that_are_known():
    steps = [0, 200, 400, 600]
    path = torch.tensor([[0.0, 0], [1, 0], [1, 2], [1, 5]])
    assert training.turn(steps, path, at=200) == pytest.approx(90)
    assert training.turn(steps, path, at=400) == pytest.approx(0, abs=0.1)
    with pytest.raises(ValueError, match="no step 800"):
        training.turn(steps, path, at=600)


def test_exponentials_are_fitted_each_at_its_own_pace_and_a_jump_is_not():
    steps = [0, 100, 200, 400, 800, 1600]
    time = torch.tensor(steps)[:, None].float()
    gradual = (
        torch.tensor([2.0, 1]) + torch.tensor([5.0, 3]) * (-time / training.PACES[[30, 55]]).exp()
    )
    assert torch.allclose(
        training.at_its_own_pace(steps, gradual.float()), gradual.float(), atol=1e-3
    )
    jump = torch.where(time < 300, 5.0, 1.0)
    assert (training.at_its_own_pace(steps, jump) - jump).abs().max() > 0.3


def test_the_plane_holds_what_lies_in_a_plane():
    axes = torch.linalg.qr(torch.randn(50, 2, generator=torch.Generator().manual_seed(0))).Q.T
    flat = torch.tensor([[0.0, 0], [4, 1], [8, -1], [12, 0]])
    mean, found, shares = training.plane(flat @ axes + 3)
    assert sum(shares) == pytest.approx(1) and shares[0] > shares[1]
    again = (flat @ axes + 3 - mean) @ found.T @ found + mean
    assert torch.allclose(again, flat @ axes + 3, atol=1e-4)


def test_drawn_tokens_are_different_places_and_the_same_for_a_seed():
    drawn = training.drawn_tokens(5, 10, 127, seed=1)
    assert torch.equal(drawn, training.drawn_tokens(5, 10, 127, seed=1))
    assert all(len(set(row.tolist())) == 10 for row in drawn) and drawn.max() < 127


def test_farther_context_comes_at_once_and_the_path_turns_there_without_the_start(pieces):
    steps = [100, 300, 500, 700, 1000, 4000]
    models = [load_checkpoint("stories-2l", step) for step in steps]
    slopes = [training.context_slope(model, pieces) for model in models]
    rise, begins = study.largest_rise(steps, slopes)
    assert begins == 300 and rise > 0.5 * slopes[-1]
    mixed = torch.cat([pieces[:, :1], pieces[:, 1:112].flip(1), pieces[:, 112:]], dim=1)
    assert training.context_slope(models[-1], pieces, mixed) < 0.5 * slopes[-1]
    path = torch.stack([study.losses_of(model, pieces).flatten() for model in models])
    mean, axes, _ = training.plane(path)
    null = training.at_its_own_pace(steps, path)
    angles = [training.turn(steps, (each - mean) @ axes.T, at=500) for each in (path, null)]
    assert angles[0] > 45 > 30 > angles[1]


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
    kinds = {"stories-2l": dict.fromkeys(drawings.KIND, 0.5)}
    check_figures(drawings.halves(kinds, kinds, "a title"))
