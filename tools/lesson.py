"""How dense each tour is, a thermometer and no limit: python tools/lesson.py [NN …].

Prose is what a reader sees of it: no folded text, code, formulas, headings, badges, references.
`told` counts the predictions whose answer is in sight, in an output or in the code above it.
"""

import json
import re
import sys

from here import ROOT

NUMBER = re.compile(r"(?<![\w.])[−-]?\d[\d,]*(?:\.\d+)?(?:\s?%|\b)")
NOT_PROSE = [  # a pattern, and what stands in its place
    (r"<details>.*?</details>|```.*?```|\$\$.*?\$\$|^#+ .*?$", " "),
    (r"`[^`]*`|\$[^$\n]*\$", "x"),
    (r"!?\[(?:!\[[^\]]*\]\([^)]*\)|([^\]]*))\]\([^)]*\)", r"\1"),
    (r"\*\*(?:Exercise|Time|Know before|References|Next)[^\n]*", " "),
    (r"\b(?:19|20)\d\d\b|(?i:notebooks? \d\d|section \d|exercise \d\d\.\d)", " "),  # no quantities
]
STRING = re.compile(r"""(print\()?f?(["'])((?:(?!\2).)*)\2([\]:]?)""")


def is_folded(cell: dict, part: str) -> bool:
    """Whether a cell's "source" or "outputs" are folded, in JupyterLab and in the built book."""
    tag, metadata = {"source": "hide-input", "outputs": "hide-output"}[part], cell["metadata"]
    return metadata.get("jupyter", {}).get(f"{part}_hidden") and tag in metadata.get("tags", [])


def predictions(notebook: dict) -> list[tuple[str, list[dict]]]:
    """Each question that a tour asks before a cell is run, and the code cells that answer it.

    These end at the first text after an output; cells that only define something come before.
    """
    found, waits = [], False
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and waits:
            found[-1][1].append(cell)
        elif cell["cell_type"] == "markdown":
            asks = re.search(r"\*\*Before you (?:run|go on)\b.*", "".join(cell["source"]))
            found += [(asks[0], [])] if asks else []
            waits = asks or (waits and not any(each["outputs"] for each in found[-1][1]))
    return found


def giveaways(cells: list[dict]) -> list[str]:
    """The sentences that stand as strings in the code in sight, such as the titles of figures.

    No key, question, label before a value or text with periods; and no f-string that says what is
    measured, as by print or {x:.2f}, where {piece!r} in a title only names something.
    """
    code, found = ["".join(cell["source"]) for cell in cells if not is_folded(cell, "source")], []
    for printed, _, text, key in STRING.findall("\n".join(code)):
        values = re.findall(r"\{(.*?)\}", text)
        measured = any(printed or not re.fullmatch(r"\w+(!r)?", value) for value in values)
        sentence = re.fullmatch(r"[“‘]?[A-Z0-9].{23,}[^.?:]", text) and ". " not in text
        if sentence and text.count(" ") > 2 and not (key or measured):
            found.append(text)
    return found


def lesson_measures(notebook: dict) -> dict[str, float]:
    """The columns of one tour; lines of code are those that are not blank."""
    prose, code = [], [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"):
        text = "".join(cell["source"])
        for pattern, instead in NOT_PROSE:
            text = re.sub(pattern, instead, text, flags=re.S | re.M)
        prose += re.split(r"\n\s*\n", text)
    outputs = [out for cell in code for out in cell["outputs"]]
    sentences = [each for text in prose for each in re.split(r"(?<=[.?!])\s+", text)]
    lines = {True: 0, False: 0}  # by whether they are folded
    for cell in code:
        n_lines = len(re.findall(r"^.*\S", "".join(cell["source"]), re.M))
        lines[bool(is_folded(cell, "source"))] += n_lines
    told = [  # of each prediction
        giveaways(cells) or [c for c in cells if c["outputs"] and not is_folded(c, "outputs")]
        for _, cells in predictions(notebook)
    ]
    n_words = len(re.findall(r"[A-Za-z’']+", "\n".join(prose)))
    numbers = [len(NUMBER.findall(text)) for text in prose]
    return {
        "words": n_words,
        "num/100w": 100 * sum(numbers) / n_words,
        "num/para": max(numbers),
        "long ()": len(re.findall(r"\([^()]{40,}\)", "\n\n".join(prose))),
        "sent>30w": sum(len(each.split()) > 30 for each in sentences),
        "cells": len(notebook["cells"]),
        "guesses": len(told),
        "told": sum(map(bool, told)),
        "printed": sum(len(NUMBER.findall("".join(out.get("text", "")))) for out in outputs),
        "figures": sum("image/png" in out.get("data", {}) for out in outputs),
        "code": lines[False],
        "folded": lines[True],
    }


def main(prefixes: list[str]) -> None:
    paths = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    paths = [path for path in paths if path.name.startswith(tuple(prefixes or [""]))]
    rows = {each.stem: lesson_measures(json.loads(each.read_text("utf-8"))) for each in paths}
    if not rows:
        sys.exit(f"no tour begins with {' or '.join(prefixes)}; write two digits, such as 05")
    print(" " * 27, *(f"{name:>8}" for name in next(iter(rows.values()))))
    for name, row in rows.items():
        print(f"{name:27}", *(f"{round(value, 1):8}" for value in row.values()))
    print("LLMs-from-scratch, ch. 3 to 5: 2.3 to 3.9 num/100w, 2300 to 3300 words, code 265 to 545")
    print("d2l, the chapter on attention: 0.3 num/100w")


if __name__ == "__main__":
    main(sys.argv[1:])
