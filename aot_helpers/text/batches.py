"""Token tensors to batches: windows, padding, repeated segments, masked tokens."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from aot_helpers.base.errors import check_ids, check_token_ids, check_whole, is_number

IGNORE_INDEX = -100  # a target that no loss counts: PyTorch's ignore_index


def token_stream(texts: list[Int[Tensor, " _"]], bos: int) -> Int[Tensor, " n_tokens"]:
    """All documents in one line, each begun by the beginning-of-sequence token."""
    check_whole("bos", bos, 0)
    _check_texts(texts)
    start = torch.tensor([bos])
    return torch.cat([part for tokens in texts for part in (start, tokens)])


def _check_texts(texts) -> None:
    for i, tokens in enumerate(texts if isinstance(texts, Iterable) else [texts]):
        check_ids(f"text {i}", tokens, 1)


def pad_batch(
    texts: list[Int[Tensor, " _"]], pad: int, n_ctx: int | None = None
) -> tuple[Int[Tensor, "batch pos"], Bool[Tensor, "batch pos"]]:
    """Texts of 1 to n_ctx tokens as one tensor, and a mask that is True at real tokens."""
    check_whole("pad", pad, 0)
    _check_texts(texts)
    lengths = [len(tokens) for tokens in texts]
    if not lengths or min(lengths) == 0:
        raise ValueError("every text needs at least one token: leave empty ones out")
    if n_ctx is not None and max(lengths) > n_ctx:
        raise ValueError(f"a text has {max(lengths)} tokens, more than n_ctx = {n_ctx}: cut it")
    tokens = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=pad)
    return tokens, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def repeat_segments(segments: Int[Tensor, "batch length"], bos: int) -> Int[Tensor, "batch pos"]:
    """BOS, then each segment twice: [batch, 1 + 2 · length]."""
    check_ids("segments", segments, 2)
    check_whole("bos", bos, 0)
    start = torch.full((len(segments), 1), bos, device=segments.device)
    return torch.cat([start, segments, segments], dim=1)


def repeated_tokens(
    d_vocab: int, length: int, batch: int, bos: int = 0, seed: int = 0
) -> Int[Tensor, "batch pos"]:
    """BOS, then a random segment twice: [batch, 1 + 2 · length]; BOS is not drawn."""
    generator = torch.Generator().manual_seed(seed)
    check_whole("d_vocab", d_vocab, 2, unit=" (BOS and one token more)")
    check_whole("length", length, 1)
    check_whole("batch", batch, 1)
    check_whole("bos", bos, 0, d_vocab - 1)
    return repeat_segments(_random_tokens((batch, length), d_vocab, bos, generator), bos)


def _random_tokens(size: tuple, d_vocab: int, bos: int, generator) -> Int[Tensor, "*size"]:
    """Any token but BOS, each with equal probability."""
    # 1 to d_vocab - 1 places on from BOS, around the end of the vocabulary: never BOS itself.
    return (torch.randint(1, d_vocab, size, generator=generator) + bos) % d_vocab


@dataclass(frozen=True)
class Windows:
    """Training batches: windows[step] is [batch_size, n_ctx + 1], given seed and step alone.

    Every window begins with BOS. A fraction `repeat_fraction` of them is not running text but
    segments of `repeat_lengths` (lowest, highest) tokens, each written twice: what an induction
    head predicts and nothing else can. A schedule of (from step, fraction) such as
    ((0, 0.9), (300, 0.2)) has repeats first, text later. A fraction `random_fraction` of the
    segments is uniform random tokens, the others are cut from the text.
    """

    stream: Int[Tensor, " n_tokens"]
    n_ctx: int = 128
    batch_size: int = 16
    bos: int = 0
    d_vocab: int = 1024
    repeat_fraction: float | tuple[tuple[int, float], ...] = 0.0
    repeat_lengths: tuple[int, int] = (8, 64)
    random_fraction: float = 1.0
    seed: int = 0

    def __post_init__(self):
        check_ids("stream", self.stream, 1)
        for name, least in {"n_ctx": 1, "batch_size": 1, "d_vocab": 2, "seed": 0}.items():
            check_whole(name, getattr(self, name), least)
        if (n := len(self.stream)) <= self.n_ctx:
            raise ValueError(f"{n} tokens are too few for windows of n_ctx = {self.n_ctx}")
        check_token_ids(self.stream, self.d_vocab)
        check_whole("bos", self.bos, 0, self.d_vocab - 1)
        pairs = [each if isinstance(each, tuple | list) else () for each in self._schedule]
        numbers = all(len(each) == 2 and all(map(is_number, each)) for each in pairs)
        steps = [step for step, _ in pairs] if numbers else []
        rising = steps[:1] == [0] and steps == sorted(set(steps))
        if not (rising and all(0 <= fraction <= 1 for _, fraction in pairs)):
            raise ValueError(
                f"repeat_fraction must be between 0 and 1, got {self.repeat_fraction!r}; or a "
                "schedule of (from step, fraction) whose steps begin at 0 and rise: "
                "((0, 0.9), (300, 0.2))"
            )
        if not is_number(self.random_fraction) or not 0 <= self.random_fraction <= 1:
            raise ValueError(
                f"random_fraction must be between 0 and 1, got {self.random_fraction!r}"
            )
        ends = self.repeat_lengths if isinstance(self.repeat_lengths, tuple | list) else ()
        whole = len(ends) == 2 and all(type(end) is int for end in ends)
        if not whole or not 1 <= ends[0] <= ends[1] < n:
            raise ValueError(
                f"repeat_lengths must be (lowest, highest), two whole numbers from 1 to less than "
                f"the {n} tokens of the stream, got {self.repeat_lengths!r}"
            )

    @property
    def _schedule(self) -> tuple[tuple[int, float], ...]:
        """(from step, fraction) in turn, also where one fraction holds for all steps."""
        fraction = self.repeat_fraction
        return tuple(fraction) if isinstance(fraction, tuple | list) else ((0, fraction),)

    def repeat_fraction_at(self, step: int) -> float:
        """The fraction of windows that are repeats at a step, by the schedule."""
        return [fraction for start, fraction in self._schedule if start <= step][-1]

    def __getitem__(self, step: int) -> Int[Tensor, "batch pos"]:
        check_whole("step", step, 0)
        # Seeds are further apart than a run is long: none repeats another's batches a little later.
        generator = torch.Generator().manual_seed(self.seed * 10_000_019 + step)
        n, n_starts = self.batch_size, len(self.stream) - self.n_ctx
        starts = torch.randint(n_starts, (n, 1), generator=generator)
        windows = torch.full((n, self.n_ctx + 1), self.bos)
        windows[:, 1:] = self.stream[starts + torch.arange(self.n_ctx)]
        repeated = torch.rand(n, generator=generator) < self.repeat_fraction_at(step)
        for row in repeated.nonzero()[:, 0]:
            windows[row, 1:] = self._segments(generator)
        return windows

    def _segments(self, generator) -> Int[Tensor, " n_ctx"]:
        parts, n_tokens, (low, high) = [], 0, self.repeat_lengths
        while n_tokens < self.n_ctx:
            length = int(torch.randint(low, high + 1, (1,), generator=generator))
            if torch.rand(1, generator=generator) < self.random_fraction:
                segment = _random_tokens((length,), self.d_vocab, self.bos, generator)
            else:
                start = int(torch.randint(len(self.stream) - length, (1,), generator=generator))
                segment = self.stream[start : start + length]
            parts += [segment, segment]
            n_tokens += 2 * length
        return torch.cat(parts)[: self.n_ctx]


@dataclass(frozen=True)
class MaskedWindows:
    """Batches for masked language modeling: masked[step] is (inputs, targets) [batch_size, n_ctx].

    Inputs are the windows, of which a fraction of the tokens (never the first, BOS) is replaced by
    the token `mask`. Targets are what stood there, and IGNORE_INDEX elsewhere.
    """

    windows: Windows
    mask: int
    fraction: float = 0.15

    def __post_init__(self):
        if not isinstance(self.windows, Windows):
            raise ValueError(f"windows must be Windows(…), got a {type(self.windows).__name__}")
        check_whole("mask", self.mask, 0)
        if not is_number(self.fraction) or not 0 < self.fraction < 1:
            raise ValueError(
                f"fraction must be between 0 and 1, such as 0.15, got {self.fraction!r}"
            )
        if (self.windows.stream == self.mask).any():
            raise ValueError(
                f"mask = {self.mask} stands in the text: give an id that no text has, such as "
                "the tokenizer's d_vocab, and the model one token more"
            )

    def __getitem__(self, step: int) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"]]:
        # Other numbers than those that the windows are drawn with.
        generator = torch.Generator().manual_seed(self.windows.seed * 10_000_019 + step + 5_000_000)
        tokens = self.windows[step][:, :-1]
        hidden = torch.rand(tokens.shape, generator=generator) < self.fraction
        hidden[:, 0] = False
        return tokens.masked_fill(hidden, self.mask), tokens.masked_fill(~hidden, IGNORE_INDEX)


def pair_counts(documents: list[Int[Tensor, " _"]], d_vocab: int) -> Int[Tensor, "token next"]:
    """How often each token (column) follows each other one (row), [d_vocab, d_vocab].

    Ends of texts do not count. Token 0 is BOS, as in the tokenizers that are learned here.
    """
    stream = token_stream(documents, bos=0)
    counts = (stream[:-1] * d_vocab + stream[1:]).bincount(minlength=d_vocab**2)
    counts = counts.view(d_vocab, d_vocab)
    counts[:, 0] = 0  # BOS follows the end of a text: nothing to predict
    return counts
