"""What a tour asks its reader to predict, and the cells that answer it."""

import re


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
