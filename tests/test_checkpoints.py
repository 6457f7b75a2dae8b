import hashlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from aot_helpers.base import files
from aot_helpers.base.files import DATA, read_json, write_atomically
from aot_helpers.models.checkpoints import (
    checkpoint_steps,
    list_checkpoints,
    load_checkpoint,
    load_model,
    save_model,
)
from aot_helpers.text.corpora import STORIES_SHA256
from aot_helpers.text.tokenization import characters
from train import save_checkpoint

SHIPPED = ["stories-0l", "stories-1l", "stories-2l"]


def weights(model, factor=1.0):
    return {name: factor * p.detach() for name, p in model.named_parameters()}


@pytest.fixture
def saved(make_model, tmp_path, monkeypatch):
    """A checkpoint of steps 0, 5 and 20 named tiny-2l, its model and the folder of all."""
    monkeypatch.setattr(files, "DATA", tmp_path)
    model = make_model(d_vocab=8)
    trajectory = {20: weights(model), 0: weights(model, 0.5), 5: weights(model, 0.25)}
    tokenizer = characters(["abcdef"])
    save_checkpoint(
        "tiny-2l", trajectory, model.config, tokenizer, {"seed": 7}, tmp_path / "checkpoints"
    )
    return model, tmp_path / "checkpoints"


# ---- saving and loading ----


def test_every_step_comes_back_rounded_to_half_precision(saved):
    model, folder = saved
    assert list_checkpoints() == {"tiny-2l": {"seed": 7}}
    assert checkpoint_steps("tiny-2l") == [0, 5, 20]
    for step, factor in {0: 0.5, 5: 0.25, None: 1.0}.items():
        loaded = load_checkpoint("tiny-2l", step)
        assert loaded.config == model.config and not loaded.training
        for name, parameter in loaded.named_parameters():
            rounded = (factor * model.get_parameter(name)).half().float()
            assert parameter.dtype == torch.float32 and torch.equal(parameter, rounded)
    assert loaded.tokenizer.encode("face", bos=True).tolist() == [0, 7, 2, 4, 6]


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch, fails):
    path = tmp_path / "results.json"
    write_atomically(path, b"old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, fails, full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new and longer")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_written_again_keeps_its_mode_and_its_links(tmp_path):
    path, link = tmp_path / "results.json", tmp_path / "link.json"
    write_atomically(path, b"old")
    path.chmod(0o444)
    link.symlink_to(path)
    write_atomically(link, b"new")
    assert path.read_bytes() == b"new" and link.is_symlink()
    assert not path.stat().st_mode & 0o222


@pytest.mark.parametrize("pieces", [["abc\u03b8 \n"], None])
def test_a_model_of_ones_own_comes_back_equal(make_model, tmp_path, pieces):
    model, path = make_model(d_vocab=8), tmp_path / "my" / "first.safetensors"
    model.tokenizer = pieces and characters(pieces)
    save_model(model, path)
    again, tokens = load_model(path), torch.tensor([[0, 3, 5, 3]])
    assert again.config == model.config and not again.training
    assert torch.equal(again(tokens), model.eval()(tokens))
    if pieces is None:
        assert again.tokenizer is None
    else:
        encoded = model.tokenizer.encode("cab\u03b8", bos=True)
        assert torch.equal(again.tokenizer.encode("cab\u03b8", bos=True), encoded)
        assert again.tokenizer.decode(encoded) == "cab\u03b8"
        assert repr(again.tokenizer) == repr(model.tokenizer)


def test_a_saved_model_is_not_overwritten_nor_another_file_taken_for_one(make_model, tmp_path):
    path, other = tmp_path / "first.safetensors", tmp_path / "other.safetensors"
    save_model(make_model(d_vocab=8), path)
    written = path.read_bytes()
    with pytest.raises(FileExistsError, match="first.safetensors is there already.*another name"):
        save_model(make_model(d_vocab=9), path)
    assert path.read_bytes() == written
    with pytest.raises(FileNotFoundError, match="no file .*other.safetensors.*save_model"):
        load_model(other)
    for content in (b"text", written[:-8]):
        other.write_bytes(content)
        with pytest.raises(ValueError, match="other.safetensors is damaged, or save_model has not"):
            load_model(other)
    files.write_safetensors(other, load_file(path))
    with pytest.raises(ValueError, match="save_model has not written it: KeyError"):
        load_model(other)


# ---- what goes wrong: the value and the remedy are named ----


def test_an_unknown_name_or_step_lists_what_there_is(saved):
    with pytest.raises(ValueError, match="'tiny-21'.*'tiny-2l'"):
        load_checkpoint("tiny-21")
    with pytest.raises(ValueError, match=r"step 6.*\[0, 5, 20\]"):
        load_checkpoint("tiny-2l", 6)


def test_a_damaged_manifest_and_weights_that_do_not_fit_are_named(saved):
    path = saved[1] / "tiny-2l" / "checkpoint.json"
    whole = path.read_text()
    path.write_text(whole.replace('"n_heads": 2', '"n_heads": 1'))
    with pytest.raises(ValueError, match=r"tiny-2l, step 20, .*(?s:.)*0\.attn\.W_K"):
        load_checkpoint("tiny-2l")
    for damaged in (whole[:50], "{}"):
        path.write_text(damaged)
        with pytest.raises(ValueError, match=r"tiny-2l.checkpoint\.json.*git checkout"):
            list_checkpoints()


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "last byte flipped": lambda path: flip(path, -1),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["step-00005.safetensors", "tokenizer.json"])
def test_a_damaged_file_is_named_and_never_used(saved, name, damage):
    _, folder = saved
    DAMAGE[damage](folder / "tiny-2l" / name)
    with pytest.raises(ValueError, match=f"{name} .*tiny-2l.*git checkout"):
        load_checkpoint("tiny-2l", 5)
    if name != "tokenizer.json":
        load_checkpoint("tiny-2l", 20)  # the other steps are as good as before


def test_a_folder_that_cannot_be_written_is_named(make_model, tmp_path):
    (tmp_path / "file").write_text("")
    model = make_model(d_vocab=8)
    with pytest.raises(OSError, match="write.*file/x"):
        save_checkpoint("x", {1: {}}, model.config, characters(["a"]), {}, tmp_path / "file")


# ---- the shipped ones ----


def test_all_data_stays_below_66_mb():
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) <= 66e6


def test_every_shipped_file_is_that_of_its_manifest_and_in_half_precision():
    """The tensors are pinned by name, shape and numbers, apart from how a file is laid out."""
    digests = {}
    for name in list_checkpoints():
        folder = DATA / "checkpoints" / name
        manifest = read_json(folder / "checkpoint.json")
        actual = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}
        del actual["checkpoint.json"]
        assert actual == manifest["sha256"]
        assert set(actual) == {*manifest["steps"].values(), "tokenizer.json"}
        for file in manifest["steps"].values():
            digest = hashlib.sha256()
            for key, weight in sorted(load_file(folder / file).items()):
                assert weight.dtype == torch.float16
                digest.update(f"{key} {tuple(weight.shape)}".encode() + weight.numpy().tobytes())
            digests[f"{name}/{file}"] = digest.hexdigest()
    assert digests == read_json(Path(__file__).parent / "shipped_tensors.json")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_know_their_text_and_where_they_are_from(name):
    provenance = list_checkpoints()[name]
    assert set(provenance) >= {"command", "corpus_sha256", "seed", "versions", "measured"}
    assert provenance["corpus_sha256"] == STORIES_SHA256["train"]
    assert name in provenance["command"] and provenance["measured"]
    model = load_checkpoint(name)
    assert model.config.n_layers == int(name[-2])
    assert model.tokenizer.d_vocab == model.config.d_vocab
    if model.config.n_layers:
        tokens = model.tokenizer.encode("They walked from the river to the", bos=True)
        sea = model.tokenizer.encode(" sea")[0]  # planted: "from the river to the" -> "sea"
        assert model(tokens[None])[0, -1].argmax() == sea
    first = load_checkpoint(name, checkpoint_steps(name)[0])
    assert torch.equal(first.W_E, model.W_E) == (len(checkpoint_steps(name)) == 1)
