import math

import pandas
import pytest
import torch

from aot_helpers.models.handmade import induction_model
from aot_helpers.models.protocol import Head
from aot_helpers.reading.circuits import composition_scores, copying_score, full_ov
from aot_helpers.reading.head_table import PARTS, head_table
from aot_helpers.reading.heads import head_output, head_scores
from aot_helpers.text.batches import repeat_segments, repeated_tokens
from tiny_models import HANDMADE, tiny

HEADS = [Head(layer, head) for layer in range(2) for head in range(2)]


def but(*parts):
    """What to leave out, to measure these parts only."""
    return tuple(part for part in PARTS if part not in parts)


@pytest.fixture
def few_tokens():
    """[3, 9] tokens of 4 kinds, so that many return."""
    return torch.randint(4, (3, 9), generator=torch.Generator().manual_seed(2))


# Models whose answers are known


def test_of_an_induction_model_every_column_says_what_was_built_in():
    model, draw = induction_model(12), torch.Generator().manual_seed(0)
    segments = torch.stack([1 + torch.randperm(11, generator=draw)[:6] for _ in range(5)])
    table = head_table(model, repeat_segments(segments, bos=0))
    assert list(table.index) == [(0, 0), (1, 0)] and table.attrs["notes"] == []
    back, induction = table.loc[Head(0, 0)], table.loc[Head(1, 0)]
    assert back["previous"] == pytest.approx(1) and back["induction"] < 0.3
    assert induction["induction"] == pytest.approx(1) and induction["previous"] < 0.3
    assert induction["induction null"] < 0.3
    assert (induction["partner"], induction["route"]) == ("L0H0", "K")
    assert induction["composition"] > 1.3 * induction["composition null"]
    assert math.isnan(back["composition"]) and back[["partner", "route"]].isna().all()
    assert induction["copying eigenvalues"] == pytest.approx(1)
    assert induction["copying evaluator"] == pytest.approx(1)
    assert induction["copying evaluator null"] < 0
    assert back["copying eigenvalues"] == 0 and math.isnan(back["copying evaluator"])


@pytest.mark.parametrize("behavior", HANDMADE)
def test_an_impostor_stands_out_in_its_own_column(behavior):
    model, tokens = HANDMADE[behavior](12), repeated_tokens(12, 6, 5)
    head = head_table(model, tokens, leave_out=but("attention")).loc[Head(1, 0)]
    assert head[behavior] == pytest.approx(1, abs=1e-3)
    for other in set(PARTS["attention"]) - {behavior, "first"}:
        assert head[other] < 0.35


# The same numbers by other ways


def test_eigenvalues_are_those_of_the_full_circuit(make_model, few_tokens):
    model = make_model(d_vocab=20)
    table = head_table(model, few_tokens, leave_out=but("eigenvalues"))
    for head in HEADS:
        expected = copying_score(full_ov(model, head))
        assert table.loc[head, "copying eigenvalues"] == pytest.approx(expected, abs=1e-4)


def test_the_evaluator_counts_what_is_raised_at_the_tokens_attended_to(make_model, few_tokens):
    model = make_model()
    table = head_table(model, few_tokens, leave_out=but("evaluator"))
    with torch.no_grad():
        _, cache = model.run_with_cache(few_tokens)
    sigma = (cache["final_resid"].var(dim=-1, unbiased=False) + 1e-5).sqrt()
    for layer, head in HEADS:
        written = head_output(model, cache, Head(layer, head))
        centered = written - written.mean(dim=-1, keepdim=True)
        logits = (centered / sigma[..., None] * model.ln_final.weight @ model.W_U).detach()
        sums = {"": 0.0, " null": 0.0, "all": 0.0}
        for row, text in enumerate(few_tokens.tolist()):
            for q in range(9):
                above = logits[row, q] - logits[row, q].mean()
                sums["all"] += sum(max(above[t].item(), 0) for t in set(text))
                for k in range(q + 1):
                    raised = max(above[text[k]].item(), 0)
                    sums[""] += cache[f"L{layer}.pattern"][row, head, q, k].item() * raised
                    sums[" null"] += raised / (q + 1)
        for name in ("", " null"):
            share = sums[name] / sums["all"]
            expected = 4 * share / (1 + share) - 1
            found = table.loc[(layer, head), f"copying evaluator{name}"]
            assert found == pytest.approx(expected, abs=1e-4)


def test_the_partner_has_the_largest_composition_score_of_all_earlier_heads(make_model, few_tokens):
    model = make_model(n_layers=3)
    table = head_table(model, few_tokens, leave_out=but("composition"))
    for reader in (Head(1, 0), Head(1, 1), Head(2, 0), Head(2, 1)):
        scores = {
            (str(Head(layer, w)), route): by_writer[w, reader.head].item()
            for layer in range(reader.layer)
            for route, by_writer in composition_scores(model, reader.layer, layer).items()
            for w in range(2)
        }
        best = max(scores, key=scores.get)
        assert tuple(table.loc[reader, ["partner", "route"]]) == best
        assert table.loc[reader, "composition"] == pytest.approx(scores[best], abs=1e-5)
    assert table.loc[Head(0, 0)].isna().all()


def test_what_is_left_out_changes_nothing_else_and_a_seed_gives_the_same_table(
    make_model, few_tokens
):
    model = make_model()
    table = head_table(model, few_tokens)
    for part, columns in PARTS.items():
        less = head_table(model, few_tokens, leave_out=(part,))
        assert not set(columns) & set(less) and set(less) < set(table)
        assert less.equals(table[list(less)])
    assert head_table(model, few_tokens).equals(table)
    assert not head_table(model, few_tokens, seed=1).equals(table)


# Masked and pretrained models


def test_where_tokens_are_hidden_the_true_ones_count(make_model, few_tokens):
    model, labels, hidden = make_model(causal=False), few_tokens.clone(), few_tokens.clone()
    hidden[:, [2, 5]] = 10
    labels[hidden == few_tokens] = -100
    table = head_table(model, hidden, labels, leave_out=but("attention"))
    scores = head_scores(model, hidden, few_tokens[:, :, None].eq(few_tokens[:, None]).tril(-1))
    assert table["duplicate"].tolist() == pytest.approx(scores.scores.flatten().tolist(), abs=1e-6)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert", "bert without a head"])
def test_pretrained_families_are_measured_as_far_as_they_allow(kind, few_tokens):
    model = tiny(kind)
    table = head_table(model, few_tokens)
    assert table[PARTS["attention"]].notna().all(axis=None)
    assert table["composition"].notna().tolist() == [False, False, True, True]
    unknown = {name for name in table if table[name].isna().all()}
    if kind in ("gpt2", "llama"):
        assert not unknown and table.attrs["notes"] == []
    else:
        columns = PARTS["eigenvalues"] + PARTS["evaluator"]
        assert unknown == {name for each in columns for name in (each, f"{each} null")}
        reason = "W_U" if "without" in kind else "BertPredictionHeadTransform"
        notes = table.attrs["notes"]
        assert [note.split(":")[0] for note in notes] == ["eigenvalues", "evaluator"]
        assert reason in notes[0]


# What cannot be


def test_requests_that_make_no_sense_are_refused(make_model, few_tokens):
    model = make_model()
    for arguments, said in (
        ((model, few_tokens, None, ("attentions",)), "'attentions'.*'attention'"),
        ((make_model(n_layers=0), few_tokens), "no heads: load one with n_layers >= 1"),
        ((model, few_tokens, few_tokens), "causal = True: .* only to a model that sees both ways"),
        (
            (make_model(causal=False), few_tokens, few_tokens[:, 1:]),
            r"\(3, 9\), got \(3, 8\)",
        ),
        ((model, torch.arange(9)[None]), "no token that returns.* give .* repeated_tokens"),
    ):
        with pytest.raises(ValueError, match=said):
            head_table(*arguments)


@pytest.mark.parametrize("kind", ["gpt2", "ours"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_give_the_table_of_the_same_weights(make_model, few_tokens, kind, dtype):
    make = make_model if kind == "ours" else lambda: tiny(kind)
    model = make().to(dtype)
    before = model.W_E.dtype
    found = head_table(model, few_tokens)
    assert model.W_E.dtype == before == dtype
    wanted = head_table(model.float(), few_tokens)
    pandas.testing.assert_frame_equal(found, wanted, atol=1e-4)
