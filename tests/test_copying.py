import pytest
import torch

from aot_helpers.text.batches import Windows, token_stream
from aot_helpers.text.corpora import load_corpus
from aot_helpers.text.tokenization import train_bpe
from aot_helpers.training.copying import (
    copying_recipe,
    init_tied,
    init_two_sided,
    learn_to_copy,
)

TEXT = "Ο ήλιος ανατέλλει κάθε μέρα πάνω από τη θάλασσα. " * 40


def test_the_recipe_puts_repeats_first_and_gives_heads_a_start():
    tokenizer = train_bpe([TEXT], 300)
    stream = token_stream([tokenizer.encode(TEXT)], tokenizer.bos)
    model, windows, training = copying_recipe(stream, tokenizer, steps=600, seed=1)
    assert isinstance(windows, Windows) and training.steps == 600
    assert [windows.repeat_fraction_at(step) for step in (0, 349, 350, 599)] == [0.9, 0.9, 0.2, 0.2]
    factor = model.W_U / model.W_E.T
    torch.testing.assert_close(factor, factor.mean().expand_as(factor))
    back = model.blocks[0].attn.b_rel
    assert back.argmax(dim=1).tolist() == [0, 1, 2, 3] and not model.blocks[1].attn.b_rel.any()
    again, _, adamw = copying_recipe(stream, tokenizer, steps=600, seed=1, optimizer="adamw")
    assert torch.equal(again.W_E, model.W_E)
    assert (training.optimizer, adamw.optimizer) == ("muon", "adamw")


def test_a_tied_start_leaves_open_where_heads_look(linear):
    model = linear()
    before = {name: p.clone() for name, p in model.named_parameters()}
    init_tied(model)
    changed = [name for name, p in model.named_parameters() if not torch.equal(p, before[name])]
    assert changed == ["W_U"]
    torch.testing.assert_close(model.W_U.std(), before["W_U"].std())
    cosine = torch.nn.functional.cosine_similarity(model.W_U, model.W_E.T, dim=0)
    torch.testing.assert_close(cosine, torch.ones_like(cosine))


def test_a_two_sided_start_is_the_same_on_both_sides(linear):
    model = linear(causal=False, n_heads=4)
    model.blocks[0].attn.b_rel.data.zero_()
    init_two_sided(model)
    bias = model.blocks[0].attn.relative_bias(9)[:, 4]  # [head, key], of the middle query
    assert (bias.argmax(dim=1) - 4).tolist() == [-1, 1, -2, 2]
    torch.testing.assert_close(bias.sum(dim=0), bias.sum(dim=0).flip(0))


def test_a_text_of_ones_own_becomes_a_model_with_its_tokenizer(tmp_path, capsys):
    path = tmp_path / "mytext.txt"
    path.write_text(TEXT, encoding="utf-8")
    model = learn_to_copy(load_corpus(path), steps=12, d_vocab=300)
    told = capsys.readouterr().out
    assert "heads (Muon) 0.02" in told and "of random tokens written twice it copies" in told
    assert model.config.d_vocab == model.tokenizer.d_vocab <= 300 and not model.training
    assert model.tokenizer.decode(model.tokenizer.encode(TEXT[:20])) == TEXT[:20]


def test_a_text_too_short_for_a_window_is_named(unchecked):
    with pytest.raises(ValueError, match="a text of 5 characters, 2 tokens, is too short"):
        learn_to_copy(load_corpus(["short"]), steps=1)
    with pytest.raises(ValueError, match="corpus must be a Corpus, got 'short'.*load_corpus"):
        learn_to_copy("short", steps=1)
