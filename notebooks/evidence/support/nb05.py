"""Evidence of notebook 05: three kinds of question, and the heads that answer them."""

import torch

from aot_helpers.text.stories import ROADS, THINGS


def questions(couples):
    """{kind: [[(prompt, answer), …] that choose a head, the same that test it]}.

    Each answer is the grammar's: the road's goal, the adjective of the thing, the first name.
    couples: full names of two people, from stories that no model has read.
    """
    things = [(adjective, noun) for adjective, nouns in THINGS.items() for noun in nouns]
    people = list(dict.fromkeys(name for couple in couples for name in couple))[:16]
    questions = {
        "which place?": [(f"She walked from the {a} to the", b) for a, b in ROADS.items()],
        "which thing?": [
            (f"One night Mila Golun found a {a} {noun}. She carried the", a) for a, noun in things
        ],
        "who?": [
            (f"{name} lived near the mill with six friends. One night", name) for name in people
        ],
    }
    half = {  # both things of an adjective are in one half
        kind: [i // (1 + (kind == "which thing?")) % 2 for i in range(len(each))]
        for kind, each in questions.items()
    }
    return {
        kind: [[q for q, h in zip(each, half[kind], strict=True) if h == part] for part in (1, 0)]
        for kind, each in questions.items()
    }


@torch.no_grad()
def left_without_each_head(model, tokenizer, questions):
    """The share of the answers' probability that is left without each head of layer 0, [head]."""
    sums = torch.zeros(model.config.n_heads + 1)
    for prompt, answer in questions:
        ids, first = tokenizer.encode(prompt, bos=True), tokenizer.encode(f" {answer}")[0]
        for out in range(len(sums)):  # the last: no head is out
            keep = (torch.arange(model.config.n_heads) != out)[:, None]
            logits = model(ids[None], edits={"L0.z": lambda z, keep=keep: z * keep})[0, -1]
            sums[out] += logits.softmax(dim=-1)[first]
    return sums[:-1] / sums[-1]


def one_head_each(left, run):
    """What is left without the head chosen for each kind, without the next, and in the control.

    left: {kind: [what is left on the prompts that choose, on those that test]}, both [head]. run:
    the name of the model. Returns values {"chosen head", "next head"}, their names in the same
    form, the control (for the chosen head those chosen for other kinds, for the next the ones
    after it) and its names.
    """
    order = {kind: choosing.argsort().tolist() for kind, (choosing, _) in left.items()}
    values, of, control, control_of = ({"chosen head": [], "next head": []} for _ in range(4))
    for kind, (chosen, following, *rest) in order.items():
        tested, elsewhere = left[kind][1], {order[k][0] for k in order} - {chosen}
        for group, own, others in (
            ("chosen head", chosen, elsewhere),
            ("next head", following, rest),
        ):
            values[group].append(tested[own].item())
            of[group].append(f"{run} L0H{own} {kind}")
            control[group] += [tested[head].item() for head in sorted(others)]
            control_of[group] += [f"{run} L0H{head} {kind}" for head in sorted(others)]
    return values, of, control, control_of
