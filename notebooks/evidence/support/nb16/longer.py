"""Models A and B trained ten times longer, on stories and on reviews; writes the chapter's file.

Run from the folder notebooks: python -m evidence.support.nb16.longer (about ten minutes).
"""

import copy
import json
from math import inf

import torch

import aot_helpers as aot
from chapters.nb16_too_good.report_model import LONGER, report_rows
from evidence.support.nb16.runs import fit_constants
from evidence.support.nb16.set_ups import Setup, learn

TEXTS = {"stories": "stories-2l", "imdb": "imdb-2l"}  # corpus: whose tokenizer
FAULTS = {"A": frozenset({"loss over time"}), "B": frozenset()}
STEPS, SEEDS = (150, 1500), (0, 1)


@torch.no_grad()
def two_parts(model, rows) -> list[float]:
    """What leaving out and choosing cost on real targets, as the tour splits them; 3 decimals."""
    parts = []
    for at in torch.arange(len(rows.tokens)).split(50):
        inputs, targets, real = rows.batch(at)
        log_p = model(inputs).log_softmax(dim=-1)
        here = torch.zeros(len(at), log_p.shape[-1], dtype=torch.bool).scatter(1, targets, True)
        log_p_here = log_p.masked_fill(~here[:, None], -inf).logsumexp(dim=-1)
        log_p_came = log_p.gather(2, targets[..., None])[..., 0]
        parts.append(torch.stack([-log_p_here[real], (log_p_here - log_p_came)[real]]))
    return [round(part, 3) for part in torch.cat(parts, dim=1).mean(dim=1).tolist()]


def measure(corpus: str, steps: int, seed: int) -> dict[str, list[float]]:
    """The two parts of A, of A with constants and of B."""
    tokenizer = aot.load_checkpoint(TEXTS[corpus]).tokenizer
    train, test = (
        report_rows(aot.load_corpus(corpus, split, quiet=True).texts, tokenizer, 20)
        for split in ("train", "test")
    )
    found = {}
    for name, faults in FAULTS.items():
        setup = Setup(faults=faults, d_model=64, d_mlp=64, steps=steps, seed=seed)
        model = learn(setup, train).model
        found[name] = two_parts(model, test[:1000])
        if name == "A":
            fitted = copy.deepcopy(model)
            fit_constants(fitted, train)
            found["A with constants"] = two_parts(fitted, test[:1000])
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    rows = []
    for seed in SEEDS:
        for corpus in TEXTS:
            for steps in STEPS:
                parts = measure(corpus, steps, seed)
                rows.append({"corpus": corpus, "steps": steps, "seed": seed, "parts": parts})
                print(rows[-1], flush=True)
                LONGER.write_text(json.dumps(rows, indent=1) + "\n")
