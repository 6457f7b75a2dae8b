"""What a tour folds, what it asks its reader to predict, and which sentences give that away."""

import re

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
