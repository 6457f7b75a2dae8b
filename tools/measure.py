"""Measure what some notebooks read: `make data WHAT=geometry`, or `tools/measure.py WHAT [NAME …]`.

autopsy: trains the faulty and mended set-ups of notebook 16, or those whose names begin so; without
names it goes on where it stopped. Writes data/results/autopsy.json.
geometry: metrics and maps of the queries and keys of every head of some models, for notebook 18.
Only MiniLM has maps by UMAP and the film of two heads at all scales. Writes data/results/geometry/.
phase: trains a layer with shifted keys, and its heads with new halves, for notebook 09's evidence:
the seeds that are missing. Writes data/results/phase.json.
pretrained: what notebooks 00, 07 and 20 to 24 show of models from outside, such as gpt2; a
folder in Hugging Face's format does as well. Writes data/results/pretrained/NN-MODEL.json; what a
model cannot be asked, since it answers too few prompts, is left out, and said.
reviews: where heads that rest wake in IMDB's reviews, for notebook 17. Writes
data/results/reviews.json.

SmolLM2 and MiniLM are read from the hub or from their optional packages (requirements-local.txt),
BERT and GPT-2 from the hub, docstrings-gpt2 from data/pretrained; what is out of reach is left out,
and said.
"""

import argparse
import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import here
from aot_helpers import load_checkpoint, load_corpus, load_pretrained, setup
from aot_helpers.base.results import RESULTS, rounded, write
from aot_helpers.models.checkpoints import list_checkpoints
from evidence.support import nb00 as first_look
from evidence.support import nb07 as idioms
from evidence.support import nb22 as norm_study
from evidence.support.nb09 import phase
from evidence.support.nb16 import runs as autopsy_runs
from evidence.support.nb17 import reviews as resting_heads
from evidence.support.nb18 import examine as query_key_maps
from evidence.support.nb20 import oslo
from evidence.support.nb20 import results as lens_results
from evidence.support.nb21 import results as flow_study
from evidence.support.nb23 import constant as neuron_constant
from evidence.support.nb23 import results as neuron_results
from evidence.support.nb24 import above, name_logits, named_again, two_names

MODELS = {
    "geometry": ["minilm", "stories-2l", "imdb-2l", "bert", "gpt2"],
    "pretrained": ["docstrings-gpt2", "smollm2", "gpt2"],
    "reviews": list(resting_heads.MODELS),
}
# What each notebook measures: a model and its name to what JSON can hold.
NOTEBOOKS: dict[str, Callable] = {
    "00": first_look.pretrained,
    "07": idioms.pretrained,
    "20": lens_results.pretrained,
    "20-heads": oslo.pretrained,  # heads that say a capital
    "20-relations": oslo.relations,  # the one that 20-heads has found, asked of other things
    "21": flow_study.pretrained,
    "22": norm_study.pretrained,
    "22-constants": norm_study.of_constants,  # norms that divide by constants
    "23": neuron_results.pretrained,
    "23-constant": neuron_constant.pretrained,  # of one of them, SmolLM2's L28N1095
    "24-names": two_names.pretrained,
    "24": name_logits.pretrained,  # of the heads that 24-names has found
    "24-above": above.pretrained,
    "24-again": named_again.pretrained,
}
OF_ONE_MODEL = {"20-relations", "23-constant", "24", "24-above", "24-again"}
LEFT_OUT = {
    # Measured in the notebook itself; and it was trained on windows written twice, and has read no
    # "keep at bay".
    "docstrings-gpt2": OF_ONE_MODEL | {"00", "07", "20-heads", "21", "22", "23", "24-names"},
    "gpt2": OF_ONE_MODEL,  # its heads and neuron were not sought
}


def within_reach(names: list[str], load: Callable) -> Iterator[tuple[str, object]]:
    """Each name and its model; says which are out of reach."""
    for name in names:
        try:
            model = load(name)
        except OSError as error:
            print(f"{name} is left out: {error}")
        else:
            yield name, model


def geometry(names: list[str], seed: int) -> None:
    """Measure and map the heads of our models, or of pretrained ones."""

    def load(name):
        ours = name in list_checkpoints()
        model = load_checkpoint(name) if ours else load_pretrained(name)
        return model.requires_grad_(False) if ours else model

    setup(seed=seed)
    for name, model in within_reach(names, load):
        start = time.perf_counter()
        maps = ("tsne", "umap") if name == "minilm" else ("tsne",)
        result = query_key_maps.examine(model, name, seed, maps)
        told = {"seed": seed, "weights_sha256": weights_sha256(model)}
        write(f"geometry/{name}", result | told, rows="heads")
        print(f"{name}: {len(result['heads'])} heads, {time.perf_counter() - start:.0f} s")


def weights_sha256(model) -> str:
    """The sha256 of all parameters in float32, in the order of their names, as they were read."""
    sha256 = hashlib.sha256()
    for _, parameter in sorted(model.named_parameters()):
        sha256.update(parameter.detach().float().cpu().numpy().tobytes())
    return sha256.hexdigest()


def provenance(model, name: str) -> dict:
    """Which model this is, and what read it."""
    shape = ("family", "n_layers", "n_heads", "d_model")
    return {
        "model": name,
        "source": model.tokenizer.source,
        "weights_sha256": weights_sha256(model),
        **{key: getattr(model.config, key) for key in shape},
        "versions": here.versions("torch", "transformers", "tokenizers"),
    }


def pretrained(names: list[str], seed: int, notebooks: list[str], folder: Path) -> None:
    """Measure models from outside, each for the notebooks that read it, into `folder`."""

    def load(name):
        torch.manual_seed(seed)
        return load_pretrained(name)

    for name, model in within_reach(names, load):
        for notebook in notebooks:
            if notebook in LEFT_OUT.get(name, ()):
                continue
            start = time.perf_counter()
            try:
                found = provenance(model, name) | NOTEBOOKS[notebook](model, name)
            except ValueError as error:  # it answers too few prompts, or has no such parts
                print(f"notebook {notebook} is left out: {error}")
                continue
            found["seconds"] = round(time.perf_counter() - start)
            write(f"{notebook}-{Path(name).name}", found, folder)
            print(f"notebook {notebook}, {name}: {found['seconds']} s")


def reviews(names: list[str]) -> None:
    """What heads that rest do in real reviews: models of reviews with a single layer."""
    corpus, start, rows = load_corpus("imdb", "test"), time.perf_counter(), []
    for name in names:
        model = load_checkpoint(name).requires_grad_(False)
        row = {"model": name, "weights_sha256": weights_sha256(model)}
        rows.append(row | rounded(resting_heads.measured(model, corpus.texts)))
    told = {"corpus": corpus.source, "seconds": round(time.perf_counter() - start)}
    write("reviews", told | {"models": rows}, rows="models")


def main() -> None:
    what, says = __doc__.split("\n\n", 1)
    parser = argparse.ArgumentParser(
        description=what, epilog=says, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["autopsy", "phase", *MODELS])
    parser.add_argument("names", nargs="*", help="of set-ups or models; none: all")
    parser.add_argument("--seed", type=int, default=0, help="of geometry and pretrained")
    parser.add_argument("--jobs", type=int, default=2, help="of the autopsy, at a time")
    known = list(NOTEBOOKS)
    parser.add_argument("--only", nargs="+", default=known, choices=known, help="of pretrained")
    given = parser.parse_args()
    if given.what == "autopsy":
        autopsy_runs.measure_all(given.names, given.jobs)
    elif given.what == "reviews":
        reviews(given.names or MODELS["reviews"])
    elif given.what == "phase":
        phase.measure_all()
    elif given.what == "geometry":
        geometry(given.names or MODELS["geometry"], given.seed)
    else:
        folder = RESULTS / "pretrained"
        pretrained(given.names or MODELS["pretrained"], given.seed, given.only, folder)


if __name__ == "__main__":
    main()
