"""The numbers that a tour's prose states: each stands in an output or in the code of its notebook.

Read are decimals of two digits or more, percentages, counts over ten and each "x of y", in folded
text as well; not code, formulas, links, references, years and times. What stands in a figure alone
is not shown: nobody would notice that it has changed.
"""

import html
import json
import math
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOUR = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))

DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
SIGN = r"(?:(?<![\w)\]])[−-])?"
END = r"(?![\w/%]|[.,]\d| %)"
# In prose a number is a word of its own; elsewhere it may be part of a name, as in L23H3.
IN_PROSE = re.compile(rf"(?<![\w.,/@])({SIGN})({DIGITS})(?:( ?%)|( thousand| million)|{END})")
SHOWN = re.compile(rf"({SIGN})({DIGITS}(?:e[+-]?\d+)?)( ?%)?()")
X_OF_Y = re.compile(rf"(?<![\w.,−-])({DIGITS}) of (?:[a-z]+ ){{0,2}}?({DIGITS}){END}")
EQUATION = re.compile(rf"(ln )?({DIGITS}(?: ?[·×/+−] ?{DIGITS})*) ?[=≈] ?({DIGITS}){END}")
SCALES = {"": 1, " thousand": 1e3, " million": 1e6}

NOT_READ = [
    r"(?s)```.*?```",
    r"(?s)\$\$.*?\$\$",
    r"\$[^$\n]*\$",
    r"`[^`\n]*`",
    r"(?m)^(?:#+ |\[!\[|\*\*(?:References|Next)\b).*$",  # headings, badges
    r"\*\*Time:\*\*.*",
    r"\*\*Exercise[^*]*\*\*",
    r"\[\d\d(?: ·[^\]]*)?\]\(\w+\.ipynb\)",
    r"(?i)\b(?:notebook|section|exercise)s? [\d.]+(?:(?:,| and| to) [\d.]+)*\b",
    r"\b(?:[Ii]n 1[5-9]\d\d|19[5-9]\d|20[0-2]\d)\b",  # years
    rf"{DIGITS}(?: (?:to|or) {DIGITS})?[ -](?:ms|s|seconds?|minutes?|hours?|years?)\b",
]

# What can be looked up, and no notebook computes: {a word of the notebook: numbers}.
KNOWN = {
    "SmolLM2": (30, 270, 1536, 30 * 1536, 49_152),  # layers, heads, neurons a layer and in all
    "GPT-2": (12, 144, 768, 1024, 50_257),
    "bytes": (256,),  # the signs that a tokenizer of bytes begins with
    "Pushkin": (20_000,),  # the letters that Markov counted
    "Wang et al.": (26,),  # the heads of their circuit
}


def prose(markdown: str) -> str:
    """The text of a Markdown cell, with … in the place of what is not read."""
    for pattern in NOT_READ:
        markdown = re.sub(pattern, "…", markdown)
    return re.sub(r"\]\([^)\s]*\)|[*\[\]]+|<[^>]*>", "", markdown)


def value_of(sign: str, digits: str, percent: str = "", scale: str = "") -> tuple:
    """The value of a written number, half a unit of its last digit, and whether it has a %."""
    factor = SCALES[scale] * (-1 if sign else 1)
    half = 0.5 * 10.0 ** -len(digits.partition(".")[2]) * SCALES[scale]
    return float(digits.replace(",", "")) * factor, half, bool(percent)


def numbers(text: str) -> set[tuple]:
    return {value_of(*found) for found in SHOWN.findall(text)}


def occurs(number: tuple, shown: set[tuple]) -> bool:
    """Whether a number of the prose is one of those shown, rounded.

    93 % may be shown as 0.931, but not as a count of 93; "falls by 0.45" as -0.45.
    """
    wanted, half, percent = number
    for value, finest, in_percent in shown:
        same = () if percent and not in_percent and finest == 0.5 else (value,)
        for each in (*same, value * 100.0 ** (percent - in_percent)):
            apart = abs((each if wanted < 0 else abs(each)) - wanted)
            if apart <= half * (1 + 1e-9):
                return True
    return False


def holds(equation: re.Match) -> bool:
    """Whether an equation such as 0.46 · 4 = 1.84 or ln 1024 = 6.93 holds, as it is rounded."""
    logarithm, left, right = equation.groups()
    value, half, _ = value_of("", right)
    found = eval(left.translate(str.maketrans("·×−", "**-", ",")))  # digits and + - * / alone
    return abs((math.log(found) if logarithm else found) - value) <= half * (1 + 1e-9)


def is_read(sign: str, digits: str, percent: str, scale: str) -> bool:
    after = len(digits.partition(".")[2])
    return bool(percent or scale or after >= 2) or (not after and value_of("", digits)[0] > 10)


def code_of(cell: dict) -> str:
    """A cell's code without its comments: a number that only a comment says is not computed."""
    lines = "".join(cell["source"]).splitlines(keepends=True)
    for token in list(tokenize.generate_tokens(iter(lines + [""]).__next__)):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + "\n"
    return "".join(lines)


def text_of(output: dict) -> str:
    """What an output shows besides pictures: printed text, tables, Markdown."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    page = re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", "".join(data.get("text/html", "")))
    texts = ["".join(data.get(kind, "")) for kind in ("text/plain", "text/markdown")]
    return "\n".join([*texts, html.unescape(page)])


def shapes(notebook: dict) -> set[tuple]:
    """The sizes and steps of the shipped models that a notebook names, and what is KNOWN."""
    text = "".join("".join(cell["source"]) for cell in notebook["cells"])
    found = [number for name, known in KNOWN.items() if name in text for number in known]
    for name in set(re.findall(r"[\w-]+", text)):
        if (path := ROOT / "data" / "checkpoints" / name / "checkpoint.json").exists():
            shipped = json.loads(path.read_text("utf-8"))
            found += [each for each in shipped["config"].values() if isinstance(each, int)]
            found.append(max(map(int, shipped["steps"])))
    return {(float(each), 0.5, False) for each in found}


def missing_in(text: str, shown: set[tuple], cells: list[set[tuple]]) -> list[re.Match]:
    """The numbers of a text that are not shown; of "x of y" both are, in one of the cells."""

    def together(match):
        x, y = (value_of("", each) for each in match.groups())
        share = (100 * x[0] / max(y[0], 1), 0.5, True)
        return any(occurs(x, each) and occurs(y, each) for each in cells) or occurs(share, shown)

    def result_out(match):
        n = len(match[3])
        return match[0][:-n] + "…" * n if holds(match) else match[0]

    found = [match for match in X_OF_Y.finditer(text) if not together(match)]
    text = X_OF_Y.sub(lambda match: "…" * len(match[0]), text)  # as long, so that places stay
    for match in IN_PROSE.finditer(EQUATION.sub(result_out, text)):
        if is_read(*match.groups("")) and not occurs(value_of(*match.groups("")), shown):
            found.append(match)
    return sorted(found, key=re.Match.start)


def missing(notebook: dict, checks: str = "") -> list[dict]:
    """The numbers of the prose that occur nowhere: [{cell, number, sentence}].

    checks: the code that checks the notebook's exercises, where their tasks' numbers may stand.
    """
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    cells = [numbers("\n".join([code_of(c), *map(text_of, c["outputs"])])) for c in code]
    shown, asked, found = set().union(shapes(notebook), *cells), numbers(checks), []
    for index, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            continue
        for part in re.split(r"(?=\*\*Exercise )", "".join(cell["source"])):
            text, extra = prose(part), asked if part.startswith("**Exercise ") else set()
            for match in missing_in(text, shown | extra, [*cells, extra]):
                before = re.split(r"(?<=[.?!])\s|\n", text[: match.start()])[-1]
                after = re.split(r"(?<=[.?!])(?:\s|$)|\n", text[match.start() :])[0]
                where = {"cell": index, "number": match[0].strip()}
                found.append(where | {"sentence": before + after})
    return found


@pytest.mark.parametrize("path", TOUR, ids=lambda path: path.stem)
def test_every_number_of_the_prose_is_shown(path):
    chapter = ROOT / "notebooks" / "chapters" / f"nb{path.stem}" / "exercises.py"
    found = missing(json.loads(path.read_text("utf-8")), chapter.read_text("utf-8"))
    said = [f"{path.name}, cell {e['cell']}: {e['number']} in: {e['sentence']}" for e in found]
    assert not said, "print these, or say them in words:\n" + "\n".join(said)


def notebook(markdown: str, *outputs: str, code: str = "") -> dict:
    shown = [{"output_type": "stream", "text": [each]} for each in outputs]
    return {
        "cells": [
            {"cell_type": "markdown", "source": [markdown]},
            {"cell_type": "code", "source": [code], "outputs": shown},
        ]
    }


def test_a_changed_digit_of_the_prose_is_found():
    said = "Of 1,536 neurons 417 of 528 fire, 93 % of them by −0.45 or 2.71, in 97 texts."
    shown = "1536 neurons, 417 of 528, 0.9312, -0.448, 2.714, 97"
    assert missing(notebook(said, shown)) == []
    for digit in re.finditer(r"\d", said):
        other = "7" if digit[0] == "1" else "1"
        changed = said[: digit.start()] + other + said[digit.end() :]
        (found,) = missing(notebook(changed, shown))
        assert found["cell"] == 0 and found["number"] in changed and found["sentence"] == changed


@pytest.mark.parametrize(
    ("said", "shown", "n_missing"),
    [
        ("it is 0.93", "0.9349", 0),
        ("it is 0.93", "0.9", 1),
        ("it is 0.93", "93%", 0),
        ("it is −0.93", "0.93", 1),
        ("it falls by 0.93", "-0.93", 0),
        ("it is 93 %", "93.4%", 0),
        ("it is 93 %", "93 tokens", 1),
        ("it is 93.1 %", "0.93", 1),
        ("7 of the 50 runs", "7 runs of 50", 0),
        ("7 of 50 runs", "14%", 0),
        ("7 of 50 runs", "50 runs", 1),
        ("2.5 million weights", "2,512,000", 0),
        ("layer 23", "L23H3", 0),
        ("12 heads, from 10 layers", "", 1),
        ("ln 1024 = 6.93", "1,024 tokens", 0),
        ("ln 1024 = 6.94", "1,024 tokens", 1),
        ("3 · 16 = 48", "16", 0),
        ("`0.93`, $x = 0.93$, notebook 12 (2022), [12](12_a.ipynb), 31 minutes", "", 0),
        ("<details><summary>Hint</summary>\n\n0.93</details>", "", 1),
        ("[0.93](a.ipynb) and [text](0.94)", "", 1),
        ("**Exercise 03.1 (write, 20 minutes).** Reach 0.93.\n\n**Exercise 03.2.** 0.95", "", 1),
    ],
)
def test_what_counts_as_shown(said, shown, n_missing):
    assert len(missing(notebook(said, shown), checks="LEAST = 0.93")) == n_missing


def test_tables_are_searched_and_their_style_is_not():
    page = "<style>a {width: 0.94}</style><td id='0.95'>0.93</td>"
    tour = notebook("0.93, 0.94, 0.95")
    tour["cells"][1]["outputs"] = [{"data": {"text/html": page, "image/png": "0.96"}}]
    assert [each["number"] for each in missing(tour)] == ["0.94", "0.95"]
