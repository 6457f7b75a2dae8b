"""Notebook 05: its blank pages, the test set against plain sums, the loop at one rate."""

import math
from collections import Counter
from itertools import pairwise

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.sampling import generate
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.teaching.exercises import write
from aot_helpers.text.corpora import load_corpus
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.train import train
from chapters.nb05_training_and_sampling import exercises, figures, measure
from figure_checks import check_figures

PROMPT = "Mila Golun lived near the river."


@pytest.fixture(scope="session")
def model():
    return load_checkpoint("stories-1l").requires_grad_(False)


@pytest.fixture(scope="session")
def corpus():
    return load_corpus("stories", "test")


@pytest.fixture(scope="session")
def test_set(model, corpus):
    return measure.TestSet(corpus, model.tokenizer)


def test_every_story_that_fits_is_read_whole(test_set, model, corpus):
    lengths = [len(model.tokenizer.encode(text)) for text in corpus.texts]
    assert test_set.numbers == [i for i, length in enumerate(lengths) if length <= 128]
    assert len(test_set.now) == len(test_set.following) == sum(lengths[i] for i in test_set.numbers)
    first = model.tokenizer.encode(corpus.texts[test_set.numbers[0]], bos=True)
    assert torch.equal(test_set.now[: len(first) - 1], first[:-1])
    assert torch.equal(test_set.following[: len(first) - 1], first[1:])


def test_losses_of_the_test_set_are_those_of_each_story_alone(test_set, model, corpus):
    losses, begin = test_set.losses_of(model), 0
    for number in test_set.numbers[:3]:
        ids = model.tokenizer.encode(corpus.texts[number], bos=True)[None]
        alone = next_token_losses(model(ids[:, :128]), ids[:, :128])[0]
        assert torch.allclose(losses[begin : begin + len(alone)], alone, atol=1e-4)
        begin += ids.shape[1] - 1


def test_a_passage_is_read_in_its_story(test_set, corpus):
    places = test_set.passage(3, " said", 16)
    text = test_set.tokenizer.decode(test_set.following[list(places)])
    assert text.startswith(" said") and text in corpus.texts[3]


def test_forty_losses_are_those_of_train_at_a_constant_rate():
    config = ModelConfig(20, n_layers=1, d_model=16, n_heads=2, d_head=8, n_ctx=12)
    generator = torch.Generator().manual_seed(0)
    batches = [torch.randint(20, (3, 13), generator=generator) for _ in range(50)]

    def new_model():
        torch.manual_seed(1)
        return AttentionOnlyTransformer(config)

    how = TrainConfig(40, learning_rate=0.01, warmup_steps=0, final_fraction=1.0)
    theirs = train(new_model(), batches, how, quiet=True).losses
    ours = measure.forty_losses(new_model, batches, 0.01)
    # In `train` embeddings and positions have no weight decay, so the two part slowly.
    assert len(ours) == 40 and ours[:5] == pytest.approx(theirs[:5], abs=0.005)


def test_the_live_loss_keeps_models_on_the_way(model):
    live = figures.LiveLoss(model, {"uniform": 6.9}, 5, "title", every=100, checkpoint_steps=(2,))
    for loss in (5.0, 4.0, 3.0, 2.0):
        live(loss)
    assert list(live.checkpoints) == [0, 2] and live.losses == [5.0, 4.0, 3.0, 2.0]
    assert live.checkpoints[2] is not model


def test_figures_can_be_read(model, test_set):
    first = model.tokenizer.encode(PROMPT, bos=True)
    losses = {"yours": test_set.losses_of(model)}
    knows, passage = (
        {"yours": "one layer", "entropy": "the grammar"},
        test_set.passage(3, " said", 16),
    )
    curve = {"kite": torch.linspace(0, 0.7, 9), "boat": torch.linspace(0, 0.3, 9)}
    table = {"with heads": torch.eye(20), "without": torch.full((20, 20), 0.05)}
    live = figures.LiveLoss(model, {"uniform": 6.9}, 5, "title", every=100)
    live(5.0)
    text = "Then Mila found the red"
    check_figures(
        figures.two_loops(model, text, "kite", "boat", title="title"),
        figures.ladder(losses, knows, test_set, passage, "yours", title="title"),
        figures.steps_on_one_guess({"once": curve, "twice": curve}),
        figures.marked_texts(model.tokenizer, {"step 1": first}, 5, first[4], "title", "key"),
        figures.endings_read_and_written(table, measure.ENDINGS, "title"),
    )
    assert len(live.figure().axes) == 1


def over_time(logits, targets):
    return -logits.log_softmax(dim=1).gather(-1, targets[..., None]).mean()


def overflowing(logits, targets):
    return -logits.softmax(dim=-1).gather(-1, targets[..., None]).log().mean()


def watching_a_tensor(model, optimizer, batches, rates, watch):
    exercises.train(model, optimizer, batches, rates, lambda loss: watch(torch.tensor(loss)))


def clipping_too_early(model, optimizer, batches, rates, watch):
    """Before backward() there are no gradients to clip."""
    for batch, rate in zip(batches, rates, strict=True):
        loss = exercises.cross_entropy(model(batch[:, :-1]), batch[:, 1:])
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        loss.backward()
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
        watch(loss.item())


def dividing_by_zero(model, ids, n, temperature=1.0, top_k=None, seed=0):
    torch.multinomial((model(ids[None, -3:])[0, -1] / temperature).softmax(dim=-1), 1)
    return exercises.sample(model, ids, n, temperature, top_k, seed)


def flawed(**flaw):
    return lambda *arguments: exercises.flawed(*arguments, **flaw)


def multiplied(model, ids, n, temperature=1.0, top_k=None, seed=0):
    return exercises.sample(model, ids, n, temperature and 1 / temperature, top_k, seed)


def losses_at(rate):
    """Losses like those of the tour: falling, exploding, or NaN."""
    if rate < 0.06:
        return [7.0, 10.5, *[4.0] * 38]
    return [7.0, 70.0 if rate < 100 else math.nan, *[50.0 if rate < 100 else math.nan] * 38]


def draws_among_all(model, ids, n, temperature=1.0, top_k=None, seed=0):
    return exercises.sample(model, ids, n, temperature, None, seed)


def draws_at_one(model, ids, n, temperature=1.0, top_k=None, seed=0):
    return exercises.sample(model, ids, n, float(temperature > 0), top_k, seed)


WORSE, RIVER = "worse than uniform", "lived near the river."
GIVEN = {
    "05.3": lambda: {"losses_at": losses_at},
    "05.5": lambda: {"endings": lambda _: Counter({"is": 8, "un": 2})},
}
ANSWERS = [
    ("05.1", over_time, "over the positions"),
    ("05.1", overflowing, "rounded to 0"),
    ("05.1", lambda logits, _: -logits.log_softmax(dim=-1).mean(), "only the token that came"),
    ("05.2", flawed(clear=False), "zero_grad"),
    ("05.2", flawed(inputs=0), "which has no target"),
    ("05.2", watching_a_tensor, "with a tensor"),
    ("05.2", flawed(targets=0), "repeat its input"),
    ("05.2", flawed(rate_is="not set"), "is not set"),
    ("05.2", flawed(inputs=0, targets=0), "repeat its input"),
    ("05.2", flawed(rate_is="late"), "after the step"),
    ("05.2", flawed(clip=False), "not clipped"),
    ("05.2", clipping_too_early, "after backward()"),
    ("05.3", (WORSE, 2.0), "solved (nothing raises an error: only the comparison with ln(voc"),
    ("05.3", ("nan", 1e30), "solved"),
    ("05.3", (..., 2.0), "not attempted"),
    ("05.3", ("flat", 2.0), "one of 'nan'"),
    ("05.3", ("nan", 2.0), "first bad loss is 70"),
    ("05.3", (WORSE, 1e4), "first bad loss is nan"),
    ("05.3", (WORSE, 0.05), "live with this rate"),
    ("05.3", (WORSE, -1), "above 0"),
    ("05.3", ("nan", math.nan), "has NaN"),
    ("05.3", ("nan", math.inf), "an infinity"),
    ("05.3", ("nan", "high"), "one number"),
    ("05.4", multiplied, "multiplied"),
    ("05.4", dividing_by_zero, "At temperature 0"),
    ("05.4", lambda model, ids, n, **_: ids, "seven ids"),
    ("05.4", lambda model, ids, n, **_: model(ids.repeat(3)[None]), "n_ctx"),
    ("05.4", draws_among_all, "do not depend on top_k"),
    ("05.4", draws_at_one, "do not depend on the temperature"),
    ("05.5", ("Mila Golis met Pepo Dakar.", "is"), "with one name"),
    ("05.5", (f"Mila Golun {RIVER}", "un"), "cannot tell them apart"),
    ("05.5", (f"Nobody {RIVER}", "is"), "no ending to copy"),
    ("05.5", (f"Mila Golis {RIVER}", "un"), "your surname ends in -is"),
    ("05.5", (f"Mila Golas {RIVER}", "as"), "does not copy"),
    ("05.5", (f"Mila Golis {RIVER}", "-is"), "solved"),
]


def test_people_have_four_tokens_and_share_none_with_the_next(model, corpus):
    names = measure.people(corpus, model.tokenizer, 20)
    pieces = [model.tokenizer.encode(f" {name}").tolist() for name in names]
    assert all(len(each) == 4 for each in pieces)
    assert all(set(a).isdisjoint(b) for a, b in pairwise(pieces))
    tokens = measure.half_names(model.tokenizer, names)
    assert tokens.shape[:2] == (20, 20)
    read = torch.cat([model.tokenizer.encode(each) for each in measure.ENDINGS])
    assert (tokens[:, :, 4] == read[:, None]).all()


def test_counted_probabilities_sum_to_one(model):
    unigram, bigram = measure.counted(torch.tensor([0, 1, 2, 1, 2]), 4)
    assert torch.allclose(unigram.sum(), torch.tensor(1.0))
    assert torch.allclose(bigram.sum(dim=1), torch.ones(4))
    assert bigram[1].argmax() == 2


def picked(logits, targets):
    return logits.gather(-1, targets[..., None])[..., 0]


@pytest.mark.parametrize(
    "loss",
    [
        lambda logits, targets: torch.nn.functional.cross_entropy(logits.mT, targets),
        lambda logits, targets: (logits.logsumexp(dim=-1) - picked(logits, targets)).mean(),
        lambda logits, targets: (
            -picked(logits - logits.logsumexp(dim=-1, keepdim=True), targets).mean()
        ),
    ],
)
def test_a_loop_is_right_with_any_loss_that_is_right(capsys, monkeypatch, loss):
    """The three round otherwise than the package's."""
    own = exercises.cross_entropy

    def train(*given):
        with monkeypatch.context() as patch:
            patch.setattr(exercises, "cross_entropy", loss)
            exercises.flawed(*given)

    write("05.1", loss)
    write("05.2", train)
    assert capsys.readouterr().out.count("solved") == 2 and exercises.cross_entropy is own


def test_the_sampler_draws_what_the_package_draws(model):
    ids = model.tokenizer.encode(PROMPT, bos=True)
    ours = exercises.sample(model, ids, 20, temperature=0)
    assert torch.equal(ours, generate(model, ids, 20, temperature=0))
