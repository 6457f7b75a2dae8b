"""Models that were trained in the browser: the weights that the playground saves."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from tokenizers import Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.text.tokenization import BOS, Tokenizer

SETTINGS = {  # of the page, and what ModelConfig calls them
    "nLayers": "n_layers",
    "nHeads": "n_heads",
    "dModel": "d_model",
    "dHead": "d_head",
    "nCtx": "n_ctx",
    "positions": "positions",
    "smearedKeys": "smeared_keys",
}


def load_playground(path: str | Path) -> AttentionOnlyTransformer:
    """The model that "Save the weights" of the playground wrote, with .config and .tokenizer.

    Every tool of the package reads it; a letter that the page does not know is a space, as there.
    Raises OSError for a missing file, ValueError for one that the playground has not written.
    """
    path = Path(path)
    if not path.is_file():
        raise OSError(f"there is no file {path}: save the weights in the playground first")
    try:
        with safe_open(path, "pt") as file:
            facts = json.loads((file.metadata() or {})["aot"])
            letters, settings = facts["letters"], facts["settings"]
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dict)
        given = {ours: settings[name] for name, ours in SETTINGS.items()}
        model = AttentionOnlyTransformer(ModelConfig(1 + len(letters), layer_norm=False, **given))
        model.load_state_dict(weights)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{path} is not a file that the playground has saved ({error!r}): save it there again"
        ) from None
    model.tokenizer = _letters(letters)
    return model.eval()


def _letters(letters: str) -> Tokenizer:
    """Token 0 begins a text, token i is the i-th letter."""
    vocabulary = {piece: i for i, piece in enumerate([BOS, *letters])}
    backend = Backend(models.WordLevel(vocabulary, unk_token=" "))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens([BOS])
    return Tokenizer(backend, "letters", "the playground", bos=0, pad=None)
