import json
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from chapters.torus import networks as torus
from chapters.torus import training as torus_training
from chapters.torus.networks import new_nets
from chapters.torus.training import TorusRun, boost, list_runs, load_run, targets, train_nets

SEEDS = [0, 1]


def test_learning_lowers_the_loss_and_measures_what_it_returns():
    asked = targets("random", SEEDS)
    found = train_nets(new_nets(SEEDS), asked, steps=120, every=50)
    assert found.steps == [0, 50, 100, 120]
    assert found.accuracy.shape == found.loss.shape == (4, 2)
    assert (found.loss[-1] < found.loss[0] - 0.3).all()
    guesses = torus.logits(found.nets, *torus.pairs(found.nets))
    assert torch.equal(torus.is_correct(guesses, asked).float().mean(dim=1), found.accuracy[-1])


def test_networks_are_kept_on_their_way():
    nets, asked = new_nets(SEEDS), targets("random", SEEDS)
    found = train_nets(nets, asked, steps=12, keep=[0, 5, 12])
    assert list(found.kept) == [0, 5, 12]
    assert torch.equal(found.kept[0].W_Q, nets.W_Q)
    assert torch.equal(found.kept[12].W_Q, found.nets.W_Q)
    between = found.kept[5].W_Q
    assert not torch.allclose(between, nets.W_Q) and not torch.allclose(between, found.nets.W_Q)
    assert not between.requires_grad


def test_learning_works_where_gradients_are_switched_off():
    asked = targets("random", SEEDS)
    with torch.no_grad():
        quiet = train_nets(new_nets(SEEDS), asked, steps=3)
    assert torch.equal(quiet.loss, train_nets(new_nets(SEEDS), asked, steps=3).loss)


def test_networks_do_not_influence_each_other():
    asked = targets("random", SEEDS)
    both = train_nets(new_nets(SEEDS), asked, steps=20)
    alone = train_nets(new_nets([1]), asked[1:], steps=20)
    for name, W in alone.nets.tensors().items():
        assert torch.allclose(both.nets.tensors()[name][1:], W, atol=1e-4), name


def test_what_is_frozen_stays():
    nets, asked = new_nets(SEEDS), targets("random", SEEDS)
    found = train_nets(nets, asked, steps=5, frozen_heads=2, train_words=False).nets.tensors()
    for name, W in nets.tensors().items():
        if name in torus_training.HEAD_WEIGHTS:
            assert torch.equal(found[name][:, :2], W[:, :2])
            assert not torch.allclose(found[name][:, 2:], W[:, 2:])
        else:
            assert torch.equal(found[name], W)
    found = train_nets(nets, asked, steps=5, frozen_heads=3).nets.tensors()
    assert torch.equal(found["W_Q"], nets.W_Q) and not torch.allclose(found["W_U"], nets.W_U)
    assert not any(W.requires_grad for W in found.values())


@pytest.mark.parametrize("train_words", [True, False])
def test_boosting_is_learning_head_after_head(train_words):
    nets, asked = new_nets(SEEDS), targets("random", SEEDS)
    found = boost(nets, asked, [10, 6, 4], train_words=train_words, every=5)
    first = train_nets(nets.heads(0, 1), asked, 10, every=5)
    assert torch.equal(found.accuracy[:3], first.accuracy)
    for name in torus_training.HEAD_WEIGHTS:  # the first head stays as its stage left it
        assert torch.equal(found.nets.tensors()[name][:, :1], first.nets.tensors()[name])
        assert not torch.allclose(found.nets.tensors()[name][:, 1:], nets.tensors()[name][:, 1:])
    same = torch.equal(found.nets.W_U, first.nets.W_U)
    assert same is not train_words
    assert found.steps == [0, 5, 10, 10, 15, 16, 16, 20]
    guesses = torus.logits(found.nets, *torus.pairs(found.nets))
    assert torch.equal(torus.is_correct(guesses, asked).float().mean(dim=1), found.accuracy[-1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            dict(targets=targets("random", [0])),
            "targets .* of shape \\(2, 25\\), got .*\\(1, 25\\)",
        ),
        (dict(targets=targets("random", SEEDS) + 3), "numbers 0 … 4 .* got 3 … 7"),
        (dict(owners=targets("random", SEEDS)), "owners must be whole numbers 0 … 2"),
        (dict(steps=0), "steps >= 1"),
        (dict(learning_rate=float("nan")), "learning_rate > 0"),
        (dict(steps=3, keep=[2, 4]), "keep has the steps .4., but training has only 0 … 3"),
        (dict(frozen_heads=4), "frozen_heads <= 3"),
        (dict(frozen_heads=3, train_words=False), "nothing is left to train"),
    ],
)
def test_learning_refuses_what_it_cannot_do(changes, message):
    arguments = {"nets": new_nets(SEEDS), "targets": targets("random", SEEDS), **changes}
    with pytest.raises(ValueError, match=message):
        train_nets(**arguments)


@pytest.mark.parametrize("division", torus_training.DIVISIONS)
def test_owners_divide_the_pairs(division):
    asked = targets("random", SEEDS)
    found = torus_training.owners(division, asked, SEEDS, 3)
    assert found.shape == asked.shape and found.unique().tolist() == [0, 1, 2]
    for owner, target in zip(found, asked, strict=True):
        heads_of_word = [owner[target == word].unique() for word in range(5)]
        assert (max(map(len, heads_of_word)) == 1) is (division == "word")
        if division == "lot":
            assert owner.bincount().tolist() == [9, 8, 8]
    with pytest.raises(ValueError, match="division of labour"):
        torus_training.owners("head", asked, SEEDS, 3)


def test_owners_learn_to_know_their_pairs_alone():
    asked = targets("random", SEEDS)
    own = torus_training.owners("lot", asked, SEEDS, 3)

    def known_alone(nets):
        right = torus.is_correct_with_shares(nets, asked, torch.eye(3), residual=False)
        return right.gather(1, own[:, None]).float().mean()

    made = train_nets(new_nets(SEEDS), asked, steps=400, owners=own)
    plain = train_nets(new_nets(SEEDS), asked, steps=400)
    assert known_alone(made.nets) > known_alone(plain.nets) + 0.2
    guesses = torus.logits(made.nets, *torus.pairs(made.nets))
    assert torch.equal(torus.is_correct(guesses, asked).float().mean(dim=1), made.accuracy[-1])


def test_a_penalty_of_ones_own_is_what_owners_add():
    asked = targets("random", SEEDS)
    own = torus_training.owners("lot", asked, SEEDS, 3)

    def penalty(from_heads, owners, facts):
        return F.cross_entropy(from_heads[owners, torch.arange(len(facts))], facts)

    made = train_nets(new_nets(SEEDS), asked, steps=20, owners=own)
    alike = train_nets(new_nets(SEEDS), asked, steps=20, owners=own, penalty=penalty)
    other = train_nets(new_nets(SEEDS), asked, 20, owners=own, penalty=lambda *all: all[0].sum())
    assert torch.allclose(alike.loss, made.loss, atol=1e-3)
    assert not torch.allclose(other.loss, made.loss, atol=1e-1)


def test_boosting_needs_steps_for_each_head():
    with pytest.raises(ValueError, match="one number for each of 3 heads"):
        boost(new_nets([0]), targets("random", [0]), [5, 5])


def test_every_shipped_run_is_what_it_says():
    for name, run in list_runs().items():
        found = load_run(name)
        assert found.nets.W_Q.shape == (run.n_seeds, run.n_heads, 3, run.d_head), name
        assert found.nets.W_E.shape == (run.n_seeds, run.d_vocab, 3), name
        guesses = torus.logits(found.nets, *torus.pairs(found.nets))
        right = torus.is_correct(guesses, run.targets()).float().mean(dim=1)
        # The last digits of another machine can turn a pair whose two best logits are equal.
        assert (right - found.accuracy[-1]).abs().max() < 0.05, name
        assert found.steps[-1] == sum(run.steps), name


def test_a_damaged_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="did you mean"):
        load_run("heads3-dim33")
    facts = {"made": {"steps": [3]}, "measured_at": [0, 3], "sha256": "0" * 64}
    (tmp_path / "runs.json").write_text(json.dumps({"mine": facts}))
    with pytest.raises(ValueError, match="mine.safetensors is missing, truncated or damaged"):
        load_run("mine", tmp_path)


def test_a_run_can_be_trained_again():
    run = replace(TorusRun(), n_seeds=2, steps=(3,))
    assert torch.equal(
        run.train().accuracy, train_nets(new_nets([0, 1]), run.targets(), 3).accuracy
    )
    boosted = replace(run, steps=(3, 2, 1))
    assert boosted.boosted and not run.boosted
    assert boosted.train().steps[-1] == 6
