"""Notebook 11: heads taken out in several ways, facts that are moved, and its exercises."""

import itertools
import math
from functools import partial

import pytest
import torch

from aot_helpers.models.handmade import induction_model
from aot_helpers.models.losses import copy_losses, next_token_losses
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate
from aot_helpers.reading.norms import frozen_norm
from aot_helpers.reading.paths import path_terms
from aot_helpers.teaching.exercises import grade
from aot_helpers.text.batches import repeated_tokens
from chapters.nb11_causal_tests import attribution
from chapters.nb11_causal_tests import figures as causal_drawings
from chapters.nb11_causal_tests import measure as causal_tests
from chapters.nb11_causal_tests.exercises import PAGES
from figure_checks import check_figures


@pytest.fixture
def model(stories):
    return stories


@pytest.fixture
def texts(model):
    return [repeated_tokens(1024, 15, 6, model.tokenizer.bos, seed=seed) for seed in (1, 2)]


@pytest.fixture
def pair(model):
    return causal_tests.meetings(model.tokenizer, [("Mira Soken", "Pelo Balis")])


def test_with_patterns_kept_a_steering_head_is_not_missed(model, texts):
    tokens, others = texts
    whole = copy_losses(model, tokens)[1]
    for by in ("zero", "mean"):
        edits = causal_tests.without(model, tokens, [Head(0, 3)], by, others, keep_patterns=True)
        assert copy_losses(model, tokens, edits)[1] == pytest.approx(whole, abs=0.05)
        free = causal_tests.without(model, tokens, [Head(0, 3)], by, others)
        assert copy_losses(model, tokens, free)[1] > whole + 5


def test_for_the_last_layer_kept_patterns_change_nothing(model, texts):
    heads = causal_tests.every_head(model, *texts)
    assert list(heads) == ["zero", "mean", "resample", "mean, attention frozen"]
    assert all(rises.shape == (8, 2) for rises in heads.values())
    assert torch.allclose(heads["mean"][4:], heads["mean, attention frozen"][4:], atol=1e-4)


def test_the_head_that_says_always_the_same_is_found(model, texts):
    shares = causal_tests.constant_shares(model, texts[0], 0)
    assert shares.argmax() == 2 and ((shares >= 0) & (shares <= 1)).all()


def test_a_direction_at_random_is_as_long_as_the_mean(model, texts):
    tokens, others = texts
    head = Head(0, 2)
    rise = causal_tests.rise_at_random(model, tokens, others, head, n_draws=2, seed=0)
    mean = model.run_with_cache(others)[1]["L0.z"][:, :, 2].mean(dim=(0, 1))
    generator, expected = torch.Generator().manual_seed(0), []
    for _ in range(2):
        drawn = torch.randn(len(mean), generator=generator)

        def say(z, drawn=drawn):
            z = z.clone()
            z[:, :, 2] = drawn / drawn.norm() * mean.norm()
            return z

        edited, whole = (copy_losses(model, tokens, edits)[0] for edits in ({"L0.z": say}, {}))
        expected.append(edited - whole)
    assert rise == pytest.approx(sum(expected) / 2, abs=1e-4)


def test_with_resampled_induction_heads_the_other_text_is_said(model, texts):
    said = partial(causal_tests.predicts_others, model, *texts)
    assert said([Head(1, 0), Head(1, 2)]) > 0.9
    assert said([Head(1, 1), Head(1, 3)]) < 0.1
    assert causal_tests.predicts_others(model, texts[0], texts[0], []) > 0.9  # its own text


def test_losses_are_a_function_of_the_lead(model, texts):
    tokens = texts[0]
    for edits in ({}, ablate(model, [Head(1, 0)], "zero")):
        above, lead, losses = causal_tests.log_odds(model, tokens, edits)
        expected = next_token_losses(model(tokens, edits=edits), tokens)[:, 16:]
        assert torch.allclose(losses, expected, atol=1e-4)
        assert (above > lead).all()


def test_one_fact_of_two_prompts_differs(model, pair):
    prompts, (right, wrong) = pair
    say = model.tokenizer.decode
    assert (
        say(prompts["clean"][0, 1:]) == "Then Mira Soken met Pelo Balis near the river. Then Mira"
    )
    assert say(prompts["what"][0, 1:]) == "Then Mira Balis met Pelo Soken near the river. Then Mira"
    assert (
        say(prompts["where"][0, 1:]) == "Then Pelo Soken met Mira Balis near the river. Then Mira"
    )
    assert [say(each[0]) for each in (right, wrong)] == [" Sok", " Bal"]


def test_names_that_do_not_fit_are_named(model):
    for couple in (("Mira Soken", "Pelo Sokan"), ("Mira Soken", "Alexandra Balis")):
        with pytest.raises(ValueError, match=couple[1]):
            causal_tests.meetings(model.tokenizer, [couple])


def test_fitting_names_make_meetings(model):
    couples = [("Duro Semin", "Busa Mobis"), ("Mira Soken", "Pelo Balis"), ("A B", "Pelo Balis")]
    fitting = causal_tests.fitting_names(model.tokenizer, couples)
    assert ("A B", "Pelo Balis") not in fitting
    causal_tests.meetings(model.tokenizer, fitting)


def test_both_ways_of_patching_agree_in_the_last_layer(model, pair):
    both = [Head(1, 0), Head(1, 2)]
    for fact in ("what", "where"):
        noising = causal_tests.share_moved(model, *pair, fact, both)
        assert noising == pytest.approx(1, abs=0.1)
        assert causal_tests.share_moved(model, *pair, fact, both, "denoising") == pytest.approx(
            noising
        )
    assert abs(causal_tests.share_moved(model, *pair, "what", [Head(0, 3)])) < 0.01
    assert causal_tests.share_moved(model, *pair, "where", [Head(0, 3)]) > 0.5


def test_the_trajectory_of_a_model_set_by_hand():
    model = induction_model(d_vocab=30, n_ctx=128)
    torch.manual_seed(0)
    segments = torch.stack([1 + torch.randperm(29)[:10] for _ in range(4)])
    start = torch.zeros(4, 1, dtype=torch.long)
    repeats = torch.cat([start, segments, segments], dim=1)
    running = torch.cat([start, torch.randint(1, 30, (4, 127))], dim=1)
    others = {"repeats": repeats.roll(1, dims=0), "running": running.roll(1, dims=0)}
    found = causal_tests.trajectory(lambda step: model, [0, 1], repeats, running, others)
    assert set(found) == {(by, keep) for by in ("zero", "mean") for keep in (False, True)}
    for (by, keep), rises in found.items():
        assert rises.shape == (2, 2, 2) and torch.equal(rises[0], rises[1])
        first, second = rises[0, :, 0]
        assert second > 1, by  # without the induction head nothing is copied
        assert first.abs() < 1e-3 if keep else first > 1


def test_the_trajectory_agrees_with_the_packages_ablations(model, texts):
    repeats, others = texts
    torch.manual_seed(3)
    running, more = torch.randint(1, 1024, (2, 3, 128))
    given = {"repeats": others, "running": more}
    found = causal_tests.trajectory(lambda step: model, [4000], repeats, running, given)
    whole = copy_losses(model, repeats)[1]
    for by, keep in found:
        edits = causal_tests.without(model, repeats, [Head(0, 1)], by, others, keep)
        expected = copy_losses(model, repeats, edits)[1] - whole
        assert found[by, keep][0, 1, 0].item() == pytest.approx(expected, abs=1e-4)
    last = {by: found[by, True][0, 4:] - found[by, False][0, 4:] for by in ("zero", "mean")}
    assert max(each.abs().max() for each in last.values()) < 1e-6


def test_a_factor_of_zero_is_zero_ablation(model, texts):
    head = Head(0, 2)
    scaled = [model(texts[0], edits=causal_tests.scaled(head, factor)) for factor in (0, 1)]
    assert torch.allclose(scaled[0], model(texts[0], edits=ablate(model, [head])), atol=1e-4)
    assert torch.allclose(scaled[1], model(texts[0]), atol=1e-4)


@pytest.mark.parametrize("norm", [True, False])
def test_the_parts_of_self_repair(make_model, some_tokens, norm):
    model = make_model(d_mlp=4, layer_norm=norm, positions="relative").requires_grad_(False)
    head, others = Head(1, 0), some_tokens.flip(0)
    parts, size = attribution.self_repair(model, some_tokens, others, head, start=2)
    runs, caches = zip(
        *(
            model.run_with_cache(some_tokens, edits=edits)
            for edits in ({}, ablate(model, [head], "mean", others))
        ),
        strict=True,
    )

    def lift(logits):
        above = logits - logits.mean(dim=-1, keepdim=True)
        return above[:, 2:-1].gather(-1, some_tokens[:, 3:, None]).mean().item()

    def through(name):
        less, gain = caches[1][name] - caches[0][name], 1
        if norm:
            size = caches[0]["final_resid"].var(dim=-1, correction=0, keepdim=True) + 1e-5
            less, gain = (
                (less - less.mean(dim=-1, keepdim=True)) / size.sqrt(),
                model.ln_final.weight,
            )
        return lift(less * gain @ model.W_U)

    # Of layer 1 only this head differs, so that what the layer's heads add differs by it alone.
    expected = {"direct": through("L1.attn_out"), "MLP": through("L1.mlp_out")}
    expected["in all"] = lift(runs[1]) - lift(runs[0])
    expected["layer norm"] = expected["in all"] - expected["direct"] - expected["MLP"]
    assert parts == pytest.approx(expected, abs=1e-5)
    assert (abs(parts["layer norm"]) > 1e-3) == norm and abs(parts["MLP"]) > 1e-3
    stds = [cache["final_resid"][:, 2:-1].std(dim=-1, correction=0) for cache in caches]
    assert size == pytest.approx((stds[1] / stds[0]).mean().item(), abs=1e-5) and size != 1


def test_the_written_ablations_are_the_packages(model, texts):
    tokens, others = texts
    donor = model.run_with_cache(others)[1]["L1.z"]
    for way in ("zero", "mean", "resample"):
        page = partial(PAGES["11.1"], z_others=donor, heads=[0, 2], way=way)
        expected = model(tokens, edits=ablate(model, [Head(1, 0), Head(1, 2)], way, others))
        assert torch.allclose(model(tokens, edits={"L1.z": page}), expected, atol=1e-4)


def test_the_pages_are_written(check_page, model, texts):
    check_page("11.1")
    check_page("11.3", model=model, tokens=texts[0])
    check_page("11.5")


def knocked(z, z_others, heads, way, *, of_all=False, own=False, over=(0, 1), in_place=False):
    """The page of 11.1, with mistakes."""
    new = z if in_place else z.clone()
    heads = slice(None) if of_all else heads
    theirs = (z if own else z_others)[:, :, heads]
    mean = theirs.mean() if over is None else theirs.mean(dim=over, keepdim=True)
    new[:, :, heads] = {"zero": 0 * theirs, "mean": mean, "resample": theirs}[way]
    return new


def frozen(model, tokens, edits, forget=False, late=False):
    """The page of 11.3, with mistakes."""
    pattern = model.run_with_cache(tokens, edits=edits if late else {})[1]["L1.pattern"]
    return ({} if forget else edits) | {"L1.pattern": pattern}


def loss(logits, right):
    return -logits.log_softmax(dim=-1).gather(-1, right[..., None]).mean()


WEIGHTS = {0.5: 0.99, 1.5: 0.33, 2: 0.03}
MOVED = {"L0H3, what": -0.0, "L0H3, where": 0.96, "L1H0 and L1H2, what": 1.0}
ANSWERS = [
    ("11.1", knocked, "solved"),
    ("11.1", partial(knocked, of_all=True), "All heads"),
    ("11.1", partial(knocked, own=True), "mean of z itself"),
    ("11.1", partial(knocked, over=(0,)), "texts alone"),
    ("11.1", partial(knocked, over=(1,)), "positions alone"),
    ("11.1", partial(knocked, over=None), "one number"),
    ("11.1", partial(knocked, in_place=True), "begin with a copy"),
    ("11.1", lambda z, *_: z, "Nothing has changed"),
    (
        "11.1",
        lambda z, o, heads, way: None if way == "mean" else knocked(z, o, heads, way),
        "'mean'",
    ),
    ("11.2", dict(zip(WEIGHTS, (0.98, 0.27, 0.01), strict=True)), "solved"),
    ("11.2", dict(zip(WEIGHTS, (0.98, 0.7, 0.01), strict=True)), "1.5: less"),
    ("11.2", dict.fromkeys(WEIGHTS, ...), "not attempted"),
    ("11.3", frozen, "solved"),
    ("11.3", partial(frozen, late=True), "without the head"),
    ("11.3", partial(frozen, forget=True), "no longer ablated"),
    ("11.3", lambda model, tokens, edits: {"pattern": 0}, "cannot use"),
    ("11.4", dict(zip(MOVED, (0, 0.9, 1), strict=True)), "solved"),
    ("11.4", dict(zip(MOVED, (0, 0.2, 1), strict=True)), "where: more"),
    ("11.4", dict.fromkeys(MOVED, ...), "not attempted"),
    ("11.5", lambda w, a, b, right: loss(a + b - w, right), "solved"),
    ("11.5", lambda w, a, b, right: loss(a, right) + loss(b, right) - loss(w, right), "add losses"),
    ("11.5", lambda w, a, b, right: loss(a + b, right), "counted twice"),
    ("11.5", lambda w, a, b, right: loss((a + b) / 2, right), "by half"),
    ("11.5", lambda w, a, b, right: loss(a, right), "not yet"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(model, texts, capsys, number, answer, expected):
    given = {"11.2": {"truth": WEIGHTS}, "11.3": {"model": model, "tokens": texts[0]}}
    given["11.4"] = {"truth": MOVED}
    grade(number, answer, **given.get(number, {}))
    assert expected in capsys.readouterr().out


def test_figures_can_be_read(model, pair):
    drawings, rise = causal_drawings, torch.tensor([0.0] * 5 + [7.0] + [1.5] * 4)
    said = dict.fromkeys(("the text", "it says", "the other text"), pair[0]["clean"])
    tables = {"first copy": {"zero": torch.arange(8.0), "mean": -torch.ones(8)}}
    names = [f"L{i}H{h} some role" for i in range(2) for h in range(4)]
    m = torch.tensor([3.0, 2.0])
    check_figures(
        drawings.loss_by_place({"zero": {"L0H3": rise, "L0H2": rise / 4}}, "title"),
        drawings.two_texts(model.tokenizer, said, "title"),
        drawings.one_fact(model.tokenizer, pair[0], "title"),
        drawings.by_head(tables, names, "title", most=7),
        drawings.running_total({"one": 7.3, "two": -8.0, "three": 0.2}, "title", "x", "all"),
        drawings.losses_by_difference({"nothing out": (m, 1 / m)}, "title"),
    )


def test_a_running_total_goes_from_sum_to_sum():
    figure = causal_drawings.running_total({"one": 7.0, "two": -9.0}, "title", "x", "all")
    bars = [sorted((bar.get_x(), bar.get_x() + bar.get_width())) for bar in figure.axes[0].patches]
    assert bars == [[0, 7], [-2, 7], [-2, 0]]


def test_what_heads_change_of_a_logit_adds_up(model, texts):
    tokens, others = texts
    edits = ablate(model, [Head(0, 2)], "zero")
    runs = [model.run_with_cache(tokens, edits=each)[1] for each in ({}, edits)]
    changes = attribution.logit_changes(model, tokens, *runs, start=16)
    in_all = changes.pop("in all")
    assert sum(changes.values()) == pytest.approx(in_all, abs=1e-3) and abs(in_all) > 0.1
    above = [each["logits"] - each["logits"].mean(dim=-1, keepdim=True) for each in runs]
    right = [each[:, 16:-1].gather(-1, tokens[:, 17:, None]).mean() for each in above]
    assert in_all == pytest.approx((right[1] - right[0]).item(), abs=1e-4)


def test_attention_and_guesses_in_both_copies():
    tokens = torch.tensor([[0, 5, 6, 7, 8, 5, 6, 7, 8]])  # length 4: guesses at 1, 2, 3
    guesses = torch.tensor([9, 5, 5, 8, 5, 5, 5, 5, 5])  # read at 1 and 2, not yet read at 3
    logits = torch.nn.functional.one_hot(guesses, 10)[None].float()
    pattern = torch.zeros(1, 2, 9, 9)
    pattern[:, 0, :5, 0], pattern[:, 1, :5, 0] = 1, 0.5
    for query in range(5, 9):
        pattern[:, :, query, query - 3] = 0.8
    run = {"L1.pattern": pattern, "logits": logits}
    found = attribution.in_both_copies(run, tokens, heads=[0, 1])
    sure = math.e / (math.e + 9)  # of a logit of 1 beside nine of 0
    assert list(found.values()) == pytest.approx([0.75, 2 / 3, sure, 0.8])
    assert attribution.in_both_copies(run, tokens, [1])["first copy, attention to BOS"] == 0.5


def path_logits(model, tokens):
    """The logits' path terms of each order, as sums of products of patterns and OV matrices."""
    _, cache = model.run_with_cache(tokens)
    orders = []
    for n in range(model.config.n_layers + 1):
        term = torch.zeros_like(cache["logits"])
        for layers in itertools.combinations(range(model.config.n_layers), n):
            for path in itertools.product(*([Head(i, h) for h in range(2)] for i in layers)):
                moved = model.W_E[tokens]
                for head in path:
                    W = model.head_weights(head)
                    moved = cache[f"L{head.layer}.pattern"][:, head.head] @ moved @ W.W_V @ W.W_O
                term = term + moved @ model.W_U
        orders.append(term)
    return orders


def test_term_importance_is_the_loss_of_the_sum_of_path_terms(linear, some_tokens):
    model = linear(n_layers=3)
    with torch.no_grad():
        orders = path_logits(model, some_tokens)
        sums = [sum(orders[: n + 1]) for n in range(4)]
        expected = torch.stack([next_token_losses(each, some_tokens).mean() for each in sums])
        loss = next_token_losses(model(some_tokens), some_tokens).mean()
    found = causal_tests.term_importance(model, some_tokens)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found[-1], loss)
    assert found.diff().abs().min() > 1e-4  # no order is empty


@pytest.mark.parametrize("norm", [torch.nn.LayerNorm, torch.nn.RMSNorm])
def test_term_importance_with_frozen_sigma_is_the_loss_of_the_sum_of_path_terms(
    make_model, some_tokens, norm
):
    model = make_model(n_layers=3, positions="relative")
    with torch.no_grad():
        for module in (*(block for block in model.blocks), model):
            name = "ln1" if hasattr(module, "ln1") else "ln_final"
            gain = getattr(module, name).weight.data
            setattr(module, name, norm(8))  # without a bias that is not 0
            getattr(module, name).weight.copy_(gain)
        logits, cache = model.run_with_cache(some_tokens)
        terms = path_terms(model, some_tokens)
        through = frozen_norm(model.ln_final, cache["final_resid"])
        expected = []
        for n in range(4):
            short = (term for path, term in terms.items() if len(path) <= n)
            expected.append(next_token_losses(through(sum(short)) @ model.W_U, some_tokens).mean())
    found = causal_tests.term_importance(model, some_tokens)
    torch.testing.assert_close(found, torch.stack(expected))
    torch.testing.assert_close(found[-1], next_token_losses(logits, some_tokens).mean())
    assert found.diff().abs().min() > 1e-4


def test_term_importance_needs_a_sum_of_paths_and_a_next_token(make_model, some_tokens):
    with pytest.raises(ValueError, match="d_mlp = 4.*d_mlp=0"):
        causal_tests.term_importance(make_model(d_mlp=4), some_tokens)
    with pytest.raises(ValueError, match=r"\(3, 1\) .*2 positions"):
        causal_tests.term_importance(make_model(), some_tokens[:, :1])
