"""Maps and metrics of queries and keys for notebook 18: `make geometry`, or this file with names.

Writes data/results/geometry/NAME.json for each model. MiniLM is read from the hub or from its
optional package (requirements-local.txt), BERT and GPT-2 from the hub; what is out of reach is
left out, and said. Only MiniLM has maps by UMAP and the film of two heads at all seven scales.
"""

import argparse
import time

import aot_helpers
import here  # noqa: F401
from aot_helpers.base.results import write
from aot_helpers.models.checkpoints import list_checkpoints
from chapters.nb18_queries_meet_keys import measure as query_key_maps

NAMES = ("minilm", "stories-2l", "imdb-2l", "bert", "gpt2")


def load(name):
    """One of our models, or a pretrained one."""
    ours = name in list_checkpoints()
    model = aot_helpers.load_checkpoint(name) if ours else aot_helpers.load_pretrained(name)
    return model.requires_grad_(False) if ours else model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES, help=f"models; default: {NAMES}")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    aot_helpers.setup(seed=chosen.seed)
    for name in chosen.names:
        start = time.perf_counter()
        try:
            model = load(name)
        except OSError as error:
            print(f"{name} is left out: {error}")
            continue
        # Maps by UMAP, and the film of two heads at all scales, are drawn of MiniLM alone.
        maps = ("tsne", "umap") if name == "minilm" else ("tsne",)
        result = query_key_maps.examine(model, name, chosen.seed, maps)
        write(f"geometry/{name}", result | {"seed": chosen.seed}, rows="heads")
        print(f"{name}: {len(result['heads'])} heads, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
