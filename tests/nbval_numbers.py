"""A plugin of pytest: under nbval, the numbers that a tour prints are those that are committed.

pytest -p nbval_numbers --nbval-lax … compares the numbers of each code cell's printed text and
tables; the words around them may change, figures are not compared. Numbers are equal as printed.
Where a model is trained they depend on the processor: such a cell has the tag `trains` and a
tolerance in its metadata, {"aot": {"tolerance": 0.1}}, relative to the larger of both numbers, and
so may cells that use this model. One unit of the last digit is always tolerated there.

tests/nbval_sanitize.cfg says what is taken out first: times, addresses, sizes of figures.
"""

import html
import re

from nbval.plugin import IPyNbCell

NUMBER = re.compile(r"[−-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
SHOWN = 5  # differences that a failure lists


def pytest_itemcollected(item) -> None:
    """Have nbval compare a tour's cell by its numbers; the evidence has its ledger for that."""
    if isinstance(item, IPyNbCell) and item.path.parent.name != "evidence":
        item.options["check"] = True
        item.compare_outputs = lambda fresh, committed: compare(item, fresh, committed)


def compare(item: IPyNbCell, fresh: list, committed: list) -> bool:
    """Whether the outputs of a cell that ran agree with the committed ones; nbval says what not."""
    index = next(i for i, cell in enumerate(item.parent.nb.cells) if cell is item.cell)
    tolerance = item.cell.metadata.get("aot", {}).get("tolerance")
    if tolerance is None and "trains" in item.cell.metadata.get("tags", []):
        found = ['it is tagged `trains`: give its metadata {"aot": {"tolerance": …}}']
    else:
        printed = ([item.sanitize(text_of(each)) for each in them] for them in (committed, fresh))
        found = differences(*printed, tolerance or 0)
    place = f"{item.path.name}, cell {index}"
    item.comparison_traceback = [f"{place}: {each}" for each in found[:SHOWN]]
    return not found


def text_of(output: dict) -> str:
    """What an output prints: its text, or its Markdown or page where the text only names it."""
    if output.output_type == "stream":
        return output.text if output.name == "stdout" else ""
    data = output.get("data", {})
    if "text/markdown" in data:
        return data["text/markdown"]
    plain = data.get("text/plain", "")
    if re.fullmatch(r"<[\w.]+ (?:object|at 0x\w+).*>", plain):
        plain = re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", data.get("text/html", ""))
    return html.unescape(plain)


def differences(committed: list[str], fresh: list[str], tolerance: float) -> list[str]:
    """What differs between the texts of two runs, one sentence each."""
    if len(committed) != len(fresh):
        return [f"{len(committed)} outputs are committed, {len(fresh)} came"]
    found = []
    for old, new in zip(map(NUMBER.findall, committed), map(NUMBER.findall, fresh), strict=True):
        if len(old) != len(new):
            found.append(f"{len(old)} numbers are committed, {len(new)} came: {old}, {new}")
        else:
            apart = [pair for pair in zip(old, new, strict=True) if not agree(*pair, tolerance)]
            found += [f"{a} is committed, {b} came" for a, b in apart]
    return found


def agree(a: str, b: str, tolerance: float) -> bool:
    """Whether two numbers are the same as printed, or as near to each other as is tolerated."""
    x, y = (float(each.replace(",", "").replace("−", "-")) for each in (a, b))
    if not tolerance:
        return a == b or (x == y == 0 and unit(a) == unit(b))  # -0.00 is 0.00
    return abs(x - y) <= max(tolerance * max(abs(x), abs(y)), unit(a), unit(b)) * (1 + 1e-9)


def unit(number: str) -> float:
    """One unit of a number's last digit: 0.01 for 3.14."""
    digits, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
