import itertools

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.losses import copy_accuracy, copy_losses, in_context_score
from aot_helpers.models.protocol import Head
from aot_helpers.reading.heads import (
    HEAD_PATTERNS,
    by_length,
    head_output,
    head_scores,
    induction_scores,
    keys_back,
    others_like,
    pattern_score,
    uniform_score,
)
from aot_helpers.text.batches import repeated_tokens

# The same behaviors in words: does a head of this kind look from query q at key k?
LOOKS = {
    "previous": lambda text, q, k: k == q - 1,
    "current": lambda text, q, k: k == q,
    "first": lambda text, q, k: k == 0 and q > 1,
    "duplicate": lambda text, q, k: k < q and text[k] == text[q],
    "induction": lambda text, q, k: 0 < k <= q and text[k - 1] == text[q],
    "pre-duplicate": lambda text, q, k: k + 1 < q and text[k + 1] == text[q],
}


@pytest.fixture
def repeated():
    """BOS, then 4 different tokens, twice; [5, 9]."""
    draw = torch.Generator().manual_seed(0)
    segment = torch.stack([1 + torch.randperm(10, generator=draw)[:4] for _ in range(5)])
    return torch.cat([torch.zeros(5, 1, dtype=torch.long), segment, segment], dim=1)


@pytest.fixture
def few_tokens():
    """[4, 9] tokens of 3 kinds, so that many return, some at once."""
    return torch.randint(3, (4, 9), generator=torch.Generator().manual_seed(2))


def random_pattern(*shape):
    """A causal pattern that is not even."""
    scores = torch.randn(*shape, generator=torch.Generator().manual_seed(3))
    return scores.masked_fill(torch.ones(shape[-2:]).triu(1).bool(), -torch.inf).softmax(dim=-1)


@pytest.mark.parametrize("behavior", sorted(HEAD_PATTERNS.keys() | LOOKS.keys()))
def test_a_behavior_looks_where_its_sentence_says(few_tokens, behavior):
    targets = HEAD_PATTERNS[behavior](few_tokens)
    assert targets.shape == (4, 9, 9)
    for row, text in enumerate(few_tokens.tolist()):
        for q, k in itertools.product(range(9), range(9)):
            assert bool(targets[row, q, k]) == LOOKS[behavior](text, q, k), (text, q, k)


@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize("behavior", HEAD_PATTERNS)
def test_a_score_is_the_mean_attention_to_the_targets(few_tokens, behavior, first):
    pattern, targets = random_pattern(4, 2, 9, 9), HEAD_PATTERNS[behavior](few_tokens)
    totals, nulls = [], []
    for row, text in enumerate(few_tokens.tolist()):
        for q in range(first, 9):
            keys = [k for k in range(9) if LOOKS[behavior](text, q, k)]
            if keys:
                totals.append([sum(pattern[row, h, q, k].item() for k in keys) for h in range(2)])
                nulls.append(len(keys) / (q + 1))
    expected = torch.tensor(totals).mean(dim=0)
    torch.testing.assert_close(pattern_score(pattern, targets, first), expected)
    assert uniform_score(targets, first) == pytest.approx(sum(nulls) / len(nulls))


def test_a_model_that_sees_both_ways_has_the_null_of_all_keys(make_model, some_tokens):
    model = make_model(causal=False)
    assert head_scores(model, some_tokens, "previous").null == pytest.approx(1 / 7)


def test_the_keys_can_be_given_where_the_tokens_hide_them(make_model, some_tokens):
    model, keys = make_model(causal=False), HEAD_PATTERNS["duplicate"](some_tokens)
    masked = some_tokens.clone()
    masked[:, 3:] = 0
    found = head_scores(model, masked, keys, first_query=2)
    _, cache = model.run_with_cache(masked)
    for i in range(2):
        expected = pattern_score(cache[f"L{i}.pattern"].detach(), keys, 2)
        torch.testing.assert_close(found.scores[i], expected)
    assert found.null == pytest.approx(uniform_score(keys, 2, causal=False))
    by_name = head_scores(model, some_tokens, "duplicate")
    by_keys = head_scores(model, some_tokens, keys)
    assert torch.equal(by_name.scores, by_keys.scores) and by_name.null == by_keys.null
    with pytest.raises(ValueError, match=r"shape \(2, 7, 7\), got \(3, 7, 7\): give"):
        head_scores(model, masked[:2], keys)


def test_induction_score_is_attention_to_what_followed_the_same_token(make_model, repeated):
    model = make_model()
    _, cache = model.run_with_cache(repeated)
    for layer in range(2):
        for head in range(2):
            seen = []
            for text, tokens in enumerate(repeated.tolist()):
                for query in range(5, 9):  # the second copy
                    key = tokens.index(tokens[query]) + 1  # after the first occurrence
                    assert tokens[key] == (tokens + tokens[1:5])[query + 1]
                    seen.append(cache[f"L{layer}.pattern"][text, head, query, key].item())
            score = induction_scores(model, repeated)[layer, head].item()
            assert score == pytest.approx(sum(seen) / len(seen), abs=1e-6)


def test_induction_scores_leave_out_chance_repeats_of_the_first_copy(make_model):
    tokens = torch.tensor([[0, 3, 4, 5, 3, 3, 4, 5, 3]])
    model = make_model()
    _, cache = model.run_with_cache(tokens)
    keys = {5: (2, 5), 6: (3,), 7: (4,), 8: (2, 5, 6)}  # after each earlier copy
    for i in range(2):
        pattern = cache[f"L{i}.pattern"][0]
        expected = sum(pattern[:, q, k] for q in keys for k in keys[q]) / 4
        torch.testing.assert_close(induction_scores(model, tokens)[i], expected)


def test_a_score_by_length_is_the_score_of_segments_of_that_length():
    model = load_checkpoint("stories-2l-no-repeats")
    found = by_length(induction_scores, model, (8, 63), n_texts=10, seed=3)
    for length, scores in found.items():
        tokens = repeated_tokens(1024, length, 10, model.tokenizer.bos, seed=3)
        torch.testing.assert_close(scores, induction_scores(model, tokens))
    assert found[8].max() > 2 * found[63].max()  # a head that only serves short segments
    with pytest.raises(ValueError, match="length .* from 1 to 63, got 64"):
        by_length(copy_accuracy, model, (8, 64))


def test_tokens_that_are_not_repeated_are_refused(make_model, repeated):
    other = repeated.clone()
    other[0, -1] = (other[0, -1] + 1) % 11
    for tokens in (other, repeated[:, :-1], repeated_tokens(11, 1, 2)):
        for function in (induction_scores, copy_losses, copy_accuracy):
            with pytest.raises(ValueError, match="BOS, .* 2 tokens, twice"):
                function(make_model(), tokens)


def test_scores_that_cannot_be_are_refused(make_model):
    model, text = make_model(), torch.arange(7)[None]
    for changes, behavior, first, said in (
        ({}, "inductive", 0, "'inductive'.*'induction'.*current,"),
        ({"n_layers": 0}, "previous", 0, "no heads.*n_layers >= 1"),
        ({}, "induction", 0, "7 tokens .* position 0 .*too short"),
        ({}, "previous", -1, "first_query .*>= 0.* -1"),
    ):
        with pytest.raises(ValueError, match=said):
            head_scores(make_model(**changes) if changes else model, text, behavior, first)


def test_copy_losses_are_mean_minus_log_p_in_each_copy(make_model, repeated):
    model = make_model()
    log_p = model(repeated).log_softmax(-1)
    lost = [
        [-log_p[text, t, tokens[t + 1]].item() for t in range(8)]
        for text, tokens in enumerate(repeated.tolist())
    ]
    first = [loss for row in lost for loss in row[:4]]  # predicting the 4 tokens of the segment
    second = [loss for row in lost for loss in row[5:]]  # its last 3 tokens, the second time
    expected = (sum(first) / len(first), sum(second) / len(second))
    assert copy_losses(model, repeated) == pytest.approx(expected, abs=1e-5)


def test_copy_accuracy_counts_the_largest_logits_of_the_second_copy(make_model, repeated):
    model = make_model()
    logits = torch.zeros(5, 9, 11)
    for text, tokens in enumerate(repeated.tolist()):
        for t in range(8):
            right = (text, t) in {(0, 5), (0, 6), (0, 7), (1, 5), (2, 7), (3, 6)}
            # Right answers outside of what counts must not be counted.
            logits[text, t, tokens[t + 1]] = 1.0 if right or t < 5 else -1.0
    assert copy_accuracy(model, repeated, {"logits": logits}) == pytest.approx(6 / 15)
    expected = (model(repeated).argmax(-1)[:, 5:8] == repeated[:, 6:]).float().mean().item()
    assert copy_accuracy(model, repeated) == pytest.approx(expected)


def test_in_context_score_is_late_loss_minus_early_loss(some_tokens):
    losses = torch.rand(3, 10, generator=torch.Generator().manual_seed(0))
    found = in_context_score(losses, early=(1, 3), late=(6, 9))
    for text, row in enumerate(losses.tolist()):
        expected = (row[6] + row[7] + row[8]) / 3 - (row[1] + row[2]) / 2
        assert found[text].item() == pytest.approx(expected, abs=1e-6)
    falling = torch.arange(10.0, 0.0, -1.0)[None]
    assert in_context_score(falling, (0, 1), (9, 10)).tolist() == [-9.0]


@pytest.mark.parametrize(
    ("early", "late", "message"),
    [
        ((0, 2), (8, 11), r"late = \(8, 11\) .*11 .*10; give longer"),
        ((0, 3), (2, 5), r"no overlap.*\(0, 3\).*\(2, 5\)"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(early, late, message):
    with pytest.raises(ValueError, match=message):
        in_context_score(torch.zeros(2, 10), early, late)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_heads_output_is_what_its_layer_writes_without_the_others(make_model, some_tokens, layer):
    model = make_model()
    _, cache = model.run_with_cache(some_tokens)
    for head in range(2):
        alone = {f"L{layer}.z": lambda z, head=head: z * (torch.arange(2) == head)[:, None]}
        _, edited = model.run_with_cache(some_tokens, edits=alone)
        torch.testing.assert_close(
            head_output(model, cache, Head(layer, head)), edited[f"L{layer}.attn_out"]
        )


def test_a_perfect_head_scores_one_and_an_even_head_scores_the_null(repeated):
    targets = HEAD_PATTERNS["induction"](repeated)
    perfect, even = torch.zeros(5, 1, 9, 9), torch.ones(9, 9).tril()
    perfect[:, 0, range(5, 9), range(2, 6)] = 1.0
    even = (even / even.sum(-1, keepdim=True)).expand(5, 1, 9, 9)
    assert pattern_score(perfect, targets).tolist() == [1.0]
    assert pattern_score(even, targets).item() == pytest.approx(uniform_score(targets))
    assert uniform_score(targets) == pytest.approx((1 / 6 + 1 / 7 + 1 / 8 + 1 / 9) / 4)
    assert uniform_score(targets, causal=False) == pytest.approx(1 / 9)


def test_copy_losses_see_the_edits(make_model, repeated):
    model = make_model()
    uniform = copy_losses(model, repeated, {"logits": lambda logits: 0 * logits})
    assert uniform == pytest.approx((torch.tensor(11.0).log().item(),) * 2)
    assert copy_losses(model, repeated) != uniform


def test_keys_that_count_by_halves_are_refused(make_model, some_tokens, unchecked):
    targets = 0.5 * keys_back(some_tokens, 1)
    with pytest.raises(ValueError, match="must be True or False, got torch.float32"):
        head_scores(make_model(), some_tokens, targets)
    with pytest.raises(ValueError, match="must be True or False, got list"):
        head_scores(make_model(), some_tokens, [[1]])
    with pytest.raises(ValueError, match="must be True or False"):
        pattern_score(torch.rand(1, 2, 7, 7), torch.ones(1, 7, 7))


def test_texts_by_length_need_a_tokenizer(make_model):
    with pytest.raises(ValueError, match="BOS: set model.tokenizer"):
        by_length(induction_scores, make_model(), (2,))


def test_others_are_of_the_same_layers_and_none_of_the_heads(make_model):
    model, chosen = make_model(n_layers=3, n_heads=3), [Head(0, 1), Head(2, 0), Head(2, 2)]
    others = others_like(model, chosen, torch.Generator().manual_seed(0))
    assert others[0] in (Head(0, 0), Head(0, 2))
    assert others[1:] == [Head(2, 1)]  # of layer 2 only one is left
    draws = [torch.Generator().manual_seed(seed) for seed in range(20)]
    assert {others_like(model, [Head(1, 0)], draw)[0] for draw in draws} == {Head(1, 1), Head(1, 2)}
    with pytest.raises(ValueError, match="no head L3H0"):
        others_like(model, [Head(3, 0)], draws[0])
