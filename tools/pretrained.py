"""What notebooks 00, 07, 20 to 24 show of pretrained models: `make pretrained`, or this with names.

Writes data/results/pretrained/NN-MODEL.json for each notebook and model. SmolLM2 is read from the
hub or from its optional package (requirements-local.txt), GPT-2 from the hub, docstrings-gpt2 from
data/pretrained; what is out of reach is left out, and said. A folder in Hugging Face format does as
well. `make` has glibc give memory back at once: SmolLM2 then stays below 1.2 GB.
"""

import argparse
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch

import aot_helpers
import here  # noqa: F401
from aot_helpers.base.results import RESULTS, write
from chapters.nb00_start_here import measure as first_look
from chapters.nb07_one_layer_skip_trigrams import idioms
from chapters.nb20_logit_lens import results as lens_results
from chapters.nb21_information_flow import results as flow_study
from chapters.nb22_norms_neurons_names import results as part_results
from chapters.nb24_who_says_mary import measure as name_forms

NAMES = ("docstrings-gpt2", "smollm2", "gpt2")
# What each notebook measures: a model and its name to what JSON can hold.
NOTEBOOKS: dict[str, Callable] = {
    "00": first_look.pretrained,
    "07": idioms.pretrained,
    "20": lens_results.pretrained,
    "21": flow_study.pretrained,
    "22": part_results.pretrained,
    "24": name_forms.pretrained,  # of the heads that 22 has found
}
# Measured in the notebook itself; and a model that was trained on windows written twice, and has
# read no "keep at bay".
LEFT_OUT = {(notebook, "docstrings-gpt2") for notebook in ("00", "07", "21")}
LEFT_OUT |= {("24", "docstrings-gpt2"), ("24", "gpt2")}  # their heads were not sought


def provenance(model, name: str) -> dict:
    """Which model this is, and what read it."""
    packages = ("torch", "transformers", "tokenizers")
    versions = {"python": platform.python_version()} | {each: version(each) for each in packages}
    shape = {
        key: getattr(model.config, key) for key in ("family", "n_layers", "n_heads", "d_model")
    }
    return {"model": name, "source": model.tokenizer.source} | shape | {"versions": versions}


def main(names: list[str], notebooks: list[str], seed: int, folder: Path = RESULTS) -> None:
    """Measure each model that can be read, for each notebook, and say which could not."""
    done, left_out = [], []
    for name in names:
        torch.manual_seed(seed)
        try:
            model = aot_helpers.load_pretrained(name)
        except OSError as error:
            print(f"{name} is left out: {error}")
            left_out.append(name)
            continue
        for notebook in notebooks:
            if (notebook, name) in LEFT_OUT:
                continue
            start = time.perf_counter()
            found = provenance(model, name) | NOTEBOOKS[notebook](model, name)
            found["seconds"] = round(time.perf_counter() - start)
            kept = f"{notebook}-{Path(name).name}"
            write(f"pretrained/{kept}", found, folder)
            print(f"notebook {notebook}, {name}: {kept}.json, {found['seconds']} s")
        done.append(name)
    print(f"measured: {', '.join(done) or 'none'}; out of reach: {', '.join(left_out) or 'none'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES, help=f"models; default: {NAMES}")
    known = sorted(NOTEBOOKS)
    parser.add_argument("--only", nargs="+", default=known, choices=known, help="notebooks")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    main(chosen.names, chosen.only, chosen.seed)
