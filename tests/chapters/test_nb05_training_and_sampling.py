"""Notebook 05: the exam against plain sums, the loop at one rate against `train`, the pictures."""

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.text.corpora import load_corpus
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.train import train
from chapters.nb05_training_and_sampling import figures, measure
from figure_checks import check_figures

PROMPT = "Mila Golun lived near the river."


@pytest.fixture(scope="session")
def model():
    return load_checkpoint("stories-1l").requires_grad_(False)


@pytest.fixture(scope="session")
def corpus():
    return load_corpus("stories", "test")


@pytest.fixture(scope="session")
def exam(model, corpus):
    return measure.Exam(corpus, model.tokenizer)


def test_the_exam_is_every_story_that_fits_whole(exam, model, corpus):
    lengths = [len(model.tokenizer.encode(text)) for text in corpus.texts]
    assert exam.numbers == [i for i, length in enumerate(lengths) if length <= 128]
    assert len(exam.now) == len(exam.following) == sum(lengths[i] for i in exam.numbers)
    first = model.tokenizer.encode(corpus.texts[exam.numbers[0]], bos=True)
    assert torch.equal(exam.now[: len(first) - 1], first[:-1])
    assert torch.equal(exam.following[: len(first) - 1], first[1:])


def test_losses_of_the_exam_are_those_of_each_story_alone(exam, model, corpus):
    losses, begin = exam.losses_of(model), 0
    for number in exam.numbers[:3]:
        ids = model.tokenizer.encode(corpus.texts[number], bos=True)[None]
        alone = next_token_losses(model(ids[:, :128]), ids[:, :128])[0]
        assert torch.allclose(losses[begin : begin + len(alone)], alone, atol=1e-4)
        begin += ids.shape[1] - 1


def test_a_passage_is_read_in_its_story(exam, corpus):
    places = exam.passage(3, " said", 16)
    text = exam.tokenizer.decode(exam.following[list(places)])
    assert text.startswith(" said") and text in corpus.texts[3]


def test_forty_losses_are_those_of_train_at_a_constant_rate():
    config = ModelConfig(20, n_layers=1, d_model=16, n_heads=2, d_head=8, n_ctx=12)
    generator = torch.Generator().manual_seed(0)
    batches = [torch.randint(20, (3, 13), generator=generator) for _ in range(50)]

    def new_model():
        torch.manual_seed(1)
        return AttentionOnlyTransformer(config)

    how = TrainConfig(40, learning_rate=0.01, warmup_steps=0, final_share=1.0, bf16=False)
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


def test_figures_can_be_read(model, exam):
    first = model.tokenizer.encode(PROMPT, bos=True)
    losses = {"yours": exam.losses_of(model)}
    knows, passage = {"yours": "one layer", "floor": "the grammar"}, exam.passage(3, " said", 16)
    scale, shares = torch.linspace(0.02, 2, 50), torch.full((50, 8), 1 / 8)
    who = {"who?": torch.tensor([0.9, 0.1, 0.8, 1.0])}
    live = figures.LiveLoss(model, {"uniform": 6.9}, 5, "title", every=100)
    live(5.0)
    text = "Then Mila found the red"
    check_figures(
        figures.two_loops(model, text, "kite", "boat", title="title"),
        figures.ladder(losses, knows, exam, passage, "yours", title="title"),
        figures.judged_texts(model, {"step 1": first}, 5, "title"),
        figures.where_heads_look(model, {"who?": PROMPT}, who, title="title"),
        figures.river(scale, shares, [" a", "b"], (0, 1.3), title="title"),
    )
    assert len(live.figure().axes) == 1


def test_half_of_the_questions_of_a_kind_choose_a_head_and_half_test_it(model, corpus):
    asked = measure.questions(corpus.truth.names)
    for choosing, testing in asked.values():
        assert len(choosing) == len(testing) and not set(choosing) & set(testing)
    place, thing = asked["which place?"][1][0], asked["which thing?"][1][0]
    assert place == ("She walked from the river to the", "sea") and thing[1] in thing[0]
    left = measure.left_without_each_head(model, model.tokenizer, [place])
    ids, sea = model.tokenizer.encode(place[0], bos=True)[None], model.tokenizer.encode(" sea")[0]
    silent = model(ids, edits={"L0.z": lambda z: z * torch.tensor([0.0, 1, 1, 1])[:, None]})
    chances = [logits[0, -1].softmax(dim=-1)[sea] for logits in (silent, model(ids))]
    assert left[0] == pytest.approx((chances[0] / chances[1]).item(), rel=1e-4)


def test_the_head_is_chosen_on_one_half_and_told_of_the_other():
    left = {
        "a": [torch.tensor([0.1, 0.5, 0.9]), torch.tensor([0.3, 0.2, 1.0])],
        "b": [torch.tensor([1.0, 0.9, 0.1]), torch.tensor([0.8, 0.7, 0.25])],
    }
    values, of, control, control_of = measure.one_head_each(left, "run")
    assert values["chosen head"] == pytest.approx([0.3, 0.25])
    assert values["next head"] == pytest.approx([0.2, 0.7])
    assert of["chosen head"] == ["run L0H0 a", "run L0H2 b"]
    assert control_of["chosen head"] == ["run L0H2 a", "run L0H0 b"]
    assert control["chosen head"] == pytest.approx([1.0, 0.8])
    assert control_of["next head"] == ["run L0H2 a", "run L0H0 b"]
