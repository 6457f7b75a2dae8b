"""Evidence of notebook 10: a token at two places, and two matches kept or removed one by one."""

from collections.abc import Iterable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Head, Model
from chapters.nb10_induction_heads.measure import BIAS, score_terms

Match = tuple[str, str]  # what the query and the key of a term are made from, as in score_terms


def two_places(
    d_vocab: int, n: int, bos: int = 0
) -> tuple[Int[Tensor, "text pos"], Bool[Tensor, "text pos"], Bool[Tensor, "text pos"]]:
    """Texts "… x A b … y A c … x A" of different random tokens, and where b and c stand.

    Half of the texts have the two places in the other order.
    """
    draws = torch.stack([torch.randperm(d_vocab - 1)[:23] for _ in range(n)])
    draws = (1 + bos + draws) % d_vocab  # any token but BOS
    x, y, A, b, c = draws[:, :5].split(1, dim=1)
    gaps = draws[:, 5:].split(6, dim=1)
    both, one = torch.cat([x, A, b], dim=1), torch.cat([y, A, c], dim=1)
    swap = (torch.arange(n) % 2 == 1)[:, None]
    first, second = torch.where(swap, one, both), torch.where(swap, both, one)
    start = torch.full((n, 1), bos)
    tokens = torch.cat([start, gaps[0], first, gaps[1], second, gaps[2], x, A], dim=1)
    return tokens, tokens == b, tokens == c


def attention_to_places(
    model: Model, heads: list[int], text: tuple, edits: Edits | None = None
) -> Float[Tensor, "head 3"]:
    """Attention of the last query of layer 1 to b, to c (see `two_places`) and to BOS."""
    tokens, *places = text
    with torch.no_grad():
        last = model.run_with_cache(tokens, edits=edits)[1]["L1.pattern"][:, heads, -1]
    at = [(last * place[:, None]).sum(dim=-1).mean(dim=0) for place in places]
    return torch.stack([*at, last[..., 0].mean(dim=0)], dim=1)


def on_diagonal(model: Model, reader: Head, query: str, key: str) -> float:
    """In what fraction of the rows of a match's table the diagonal is largest, from the weights.

    query, key: what they are made from, "embed" or a head of layer 0, such as "L0H3".
    """
    made = []
    for part in (query, key):
        made.append(model.W_E)
        if part != "embed":
            head = model.head_weights(Head.parse(part))
            made[-1] = model.W_E @ head.W_V @ head.W_O
    (x, y), reads = made, model.head_weights(reader)
    table = (x @ reads.W_Q) @ (y @ reads.W_K).T
    return (table.argmax(dim=1) == torch.arange(len(table))).float().mean().item()


def selections(terms: Iterable[Match], matches: list[Match]) -> dict[str, list[Match]]:
    """Which terms are taken out in each test, of all terms without the bias and the two matches."""
    first, second = matches
    others = [term for term in terms if term not in (*matches, BIAS)]
    return {
        "both alone": others,
        "the first alone": [second, *others],
        "the second alone": [first, *others],
        "all but both": matches,
        "all but the first": [first],
        "all but the second": [second],
    }


def stripes_left(
    scores: Float[Tensor, "text query key"],
    terms: dict[Match, Float[Tensor, "text query key"]],
    matches: list[Match],
) -> dict[str, float]:
    """What share of a head's induction score is left without some terms of its scores.

    "all but the worst other" lacks that single term, neither match, whose loss costs most.
    """
    n = scores.shape[-1] // 2
    query, hidden = torch.arange(n + 1, 2 * n + 1), torch.ones(scores.shape[1:]).triu(1).bool()

    def stripe(gone: list[Match]) -> float:
        left = scores - sum((terms[each] for each in gone), torch.zeros(()))
        pattern = left.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        return pattern[:, query, query - n + 1].mean().item()

    whole, tests = stripe([]), selections(terms, matches)
    found = {which: stripe(gone) / whole for which, gone in tests.items()}
    single = min(stripe([term]) for term in tests["both alone"])
    return found | {"all but the worst other": single / whole}


@torch.no_grad()
def surnames(
    model: Model, sentences: list, readers: list[int], matches: list[Match]
) -> dict[str, tuple[float, float, float]]:
    """{kept terms: (probability of the right surname, of the other's, attention to BOS)}.

    Means over `name_sentences`; the attention is that of the last token, by the readers: heads of
    layer 1, from the scores of all of which terms are taken out.
    """
    total, n = {}, sum(len(tokens) for tokens, _, _ in sentences)
    for tokens, own, other in sentences:
        words = tokens.gather(1, torch.stack([own, other], dim=1))
        terms = {h: score_terms(model, tokens, Head(1, h)) for h in readers}
        tests = {"all 25 terms": []} | selections(terms[readers[0]], matches)
        for which, gone in tests.items():
            off = torch.zeros(len(tokens), model.config.n_heads, *tokens.shape[1:] * 2)
            for h in readers if gone else []:
                off[:, h] = sum(terms[h][each] for each in gone)
            edits = {"L1.scores": lambda scores, off=off: scores - off}
            logits, cache = model.run_with_cache(tokens, edits=edits)
            p = logits[:, -1].softmax(dim=-1).gather(1, words)
            on_bos = cache["L1.pattern"][:, readers, -1, 0].mean(dim=1, keepdim=True)
            total[which] = total.get(which, 0) + torch.cat([p, on_bos], dim=1).sum(dim=0) / n
    return {which: tuple(found.tolist()) for which, found in total.items()}
