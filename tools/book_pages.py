"""The book's pages from committed notebooks: nothing is executed, no output is changed.

A page loses its set-up cell and what its exercises say to somebody who runs them, folds what stands
before the first text and what follows a prediction, and gets alternative texts for its pictures,
places for the ledger to link to, and a line of routes.
"""

import ast
import html
import re
from pathlib import Path

import nbformat

import here  # noqa: F401
import publish
from glossary import Term

SET_UP = (
    'Path("attention-only-transformers").exists()'  # stands in the set-up cell of every notebook
)
PREDICT = "**Before you run"
CLAIM = r"^(\d\d\.\d+) .+ #[0-9a-f]{4}$"  # the line that a claim prints
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
MARKUP = re.compile(r"!\[[^]]*\]\([^)]*\)|\[([^]]*)\]\([^)]*\)|[*`]|<[^>]+>")
SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z*`“])")
LONGEST_ALT = 300
UNTRIED = re.compile(r"(?m)^(exercise \d\d\.\d+: not attempted|→ from here on, .*)\n?")
HOLE = "…"  # in a title: what only the run fills in


# ---- alternative texts ----


def spoken(node: ast.expr, known: dict[str, str]) -> str:
    """A text in code as it is shown, with a HOLE for what the run fills in; "" if it is no text.

    known: texts by the names of variables.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else HOLE for part in node.values]
        return "".join(parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return spoken(node.left, known) + spoken(node.right, known)
    return ""


def figure_title(source: str) -> str:
    """The title that a code cell gives its last figure; "" where it gives none.

    That is the argument title= of the last call that has one, else the longest text of at least
    three words that a call of the last statement is given by place.
    """
    try:
        statements = ast.parse(re.sub(r"(?m)^\s*[%!].*$|;\s*$", "", source)).body
    except SyntaxError:
        return ""
    known = {}
    for node in (node for each in statements for node in ast.walk(each)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = spoken(node.value, known)
    for statement in reversed(statements):
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        named = [spoken(k.value, known) for c in calls for k in c.keywords if k.arg == "title"]
        placed = [spoken(a, known) for c in calls for a in c.args if statement is statements[-1]]
        placed = [text for text in placed if len(text.split()) >= 3]
        found = [text for text in named if text] or sorted(placed, key=len)
        if found:
            return " ".join(found[-1].split())
    return ""


def sentences(markdown: str) -> list[str]:
    """The statements of a Markdown cell's paragraphs, without marks: no headings, lists, tables."""
    cut = re.sub(r"(?s)<details>.*?</details>|\$\$.*?\$\$|```.*?```", "", markdown)
    paragraphs = [
        p
        for p in re.split(r"\n\s*\n", cut)
        if p.strip() and p.strip()[0] not in "#-|>1!$" and not p.startswith("[![")
    ]
    plain = [" ".join(MARKUP.sub(r"\1", each).split()) for each in paragraphs]
    said = [sentence for each in plain for sentence in SENTENCE.split(each)]
    asks = r"Exercise|Before you run|.*[?:]$"
    return [each for each in said if len(each.split()) > 3 and not re.match(asks, each)]


def heading(markdown: str) -> str:
    """The last heading of a Markdown cell, without number and marks; "" where there is none."""
    found = re.findall(r"(?m)^#+ (?:\d+ · )?(.+)$", markdown)
    return MARKUP.sub(r"\1", found[-1]) if found else ""


def axes(source: str) -> str:
    """What a code cell writes at its figure's axes: "Across: step. Up: loss."; "" if nothing."""
    found = [re.findall(rf'\b{axis}_label="([^"]+)"', source) for axis in "xy"]
    said = zip(("Across", "Up"), found, strict=True)
    return " ".join(f"{way}: {'; '.join(dict.fromkeys(names))}." for way, names in said if names)


def alt_text(cells: list, index: int) -> str:
    """What stands for a cell's picture: its title, its axes, and a sentence of the text around it.

    The sentence is the first of the text after the picture, which says what there is to see, or
    the last before it; none with a formula, which nobody can listen to. A picture whose title is
    missing, or is not whole without the run, has the heading of its section.
    """
    title = figure_title(cells[index].source)
    if not title or HOLE in title or "$" in title:
        above = (heading(c.source) for c in reversed(cells[:index]) if c.cell_type == "markdown")
        title = next((each for each in above if each and "$" not in each), "")
    after = [c.source for c in cells[index + 1 : index + 2] if c.cell_type == "markdown"]
    before = [c.source for c in cells[:index] if c.cell_type == "markdown"]
    near = [said for text in after for said in sentences(text) if "$" not in said][:1]
    near = near or [said for text in before for said in sentences(text) if "$" not in said][-1:]
    title = re.sub(r"[\s.:]+$", "", title)
    told = axes(cells[index].source)
    if any(re.match("Across|Rows|Columns|Axes", each) for each in near):
        told = ""  # the sentence says it
    said = [title if title.endswith(("?", "!")) else f"{title}.", told, *near]
    text = " ".join(each for each in said if each.strip(". "))
    return text if len(text) <= LONGEST_ALT else text[: text.rindex(" ", 0, LONGEST_ALT)] + " …"


# ---- cells ----


def tags(cell, *more: str) -> list[str]:
    """A cell's tags, with more added."""
    cell.metadata["tags"] = [*dict.fromkeys([*cell.metadata.get("tags", []), *more])]
    return cell.metadata["tags"]


def fold_set_up(cells: list) -> list:
    """Leave the set-up cell out, and make one folded cell of those that follow it directly."""
    start = next((i for i, c in enumerate(cells) if SET_UP in c.source), None)
    if start is None:
        return cells
    first, end = start + 1, start + 1
    while end < len(cells) and cells[end].cell_type == "code":
        quiet = not cells[end].outputs
        if not quiet and "hide-input" not in cells[end].metadata.get("tags", []):
            break
        end += 1
    group = cells[first:end]
    if not group:
        return cells[:start] + cells[first:]
    one = group[-1].copy()
    one.source = "\n\n".join(each.source for each in group)
    tags(one, "hide-input")
    return [*cells[:start], one, *cells[end:]]


def fold_answers(cells: list) -> None:
    """Fold the output of each code cell before which the reader is asked for a prediction."""
    for before, cell in zip(cells, cells[1:], strict=False):
        asked = PREDICT in before.source
        if cell.cell_type == "code" and asked and cell.outputs:
            tags(cell, "hide-output")
        if "hide-output" in cell.metadata.get("tags", []):
            said = "You have a prediction? Show the {type}" if asked else "Show the {type}"
            cell.metadata["mystnb"] = {"code_prompt_show": said}


def with_claim_anchors(cells: list) -> list:
    """The cells, with a place that the ledger links to before each cell that makes a claim."""
    found = []
    for cell in cells:
        streams = [out.text for out in cell.get("outputs", []) if out.output_type == "stream"]
        made = re.findall(CLAIM, "".join(streams), re.M)
        if made:
            marks = "".join(f'<span id="{anchor(id)}"></span>' for id in dict.fromkeys(made))
            found.append(nbformat.v4.new_markdown_cell(marks))
        found.append(cell)
    return found


def anchor(id: str) -> str:
    """Where a page has the cell of a claim: "claim-10-5" of "10.5"."""
    return "claim-" + id.replace(".", "-")


def describe_pictures(cells: list) -> None:
    """Give the pictures of each cell their alternative text."""
    for index, cell in enumerate(cells):
        if any("image/png" in out.get("data", {}) for out in cell.get("outputs", [])):
            settings = cell.metadata.setdefault("mystnb", {})
            settings["image"] = {"alt": alt_text(cells, index)}


def leave_out_the_untried(cells: list) -> None:
    """Take out what an exercise says to somebody who runs it and has not tried: here nobody can."""
    for cell in cells:
        for out in cell.get("outputs", []):
            if out.output_type == "stream":
                out.text = UNTRIED.sub("", out.text)
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.output_type != "stream" or o.text.strip()]


def description(cells: list) -> str:
    """A page in one or two sentences, for search engines and previews: its first statements."""
    said = [each for c in cells if c.cell_type == "markdown" for each in sentences(c.source)]
    said = [each for each in said if "$" not in each]
    text = " ".join(said[:2])
    return text if len(text) <= 200 else text[: text.rindex(" ", 0, 200)] + " …"


# ---- links and routes ----


def to_repository(text: str, folder: Path, root: Path, inside: set[Path]) -> str:
    """Point links to files of the project that the book does not have to the repository."""
    address = f"https://github.com/{publish.repository_name(root)}/blob/HEAD"

    def renewed(match: re.Match) -> str:
        before, target, place, after = match.groups()
        if re.match(r"[a-z]+:", target):
            return match[0]
        path = (folder / target).resolve()
        if path in inside or not path.exists() or path.suffix in (".svg", ".png", ".gif"):
            return match[0]
        return f"{before}{address}/{path.relative_to(root).as_posix()}{place or ''}{after}"

    return LINK.sub(renewed, text)


def routes(readme: str) -> list[tuple[str, list[str], str]]:
    """The routes of the README's first table: what you have, the tours, what you will have."""
    table = re.search(r"(?m)^\| you have .*\n\|[-|: ]+\n((?:\|.*\n)+)", readme)
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table[1].splitlines()]
    return [
        (have, re.findall(r"\((?:notebooks/)(\w+)\.ipynb\)", take), will)
        for have, take, will in rows
    ]


def route_line(stem: str, ways: list, titles: dict[str, str]) -> str:
    """The foot of a tour: the next stop of every route that it is on, and its evidence."""
    said = []
    for have, stops, _ in ways:
        if len(stops) > 1 and stem in stops:
            then = stops[stops.index(stem) + 1 :][:1]
            name = re.split(r" (?:of|alone)\b", have)[0]
            step = f'<a href="{then[0]}.html">{titles[then[0]]}</a>' if then else "you are through"
            said.append(f"<li>{html.escape(name)}: {step}</li>")
    said.append(f'<li>behind this tour: <a href="evidence/{stem}.html">its evidence</a></li>')
    return f'<nav class="routes" aria-label="routes"><ul>{"".join(said)}</ul></nav>'


def title_of(path: Path) -> str:
    """A notebook's title with its number: "10 · How does one head tell another where to look?"."""
    source = nbformat.read(path, as_version=4).cells[0].source
    return re.search(r"(?m)^# (.+)", source)[1]


def page_of(path: Path, root: Path, inside: set[Path], foot: str = "") -> nbformat.NotebookNode:
    """A committed notebook as a page of the book."""
    notebook = nbformat.read(path, as_version=4)
    cells = fold_set_up(notebook.cells)
    leave_out_the_untried(cells)
    fold_answers(cells)
    describe_pictures(cells)
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = to_repository(cell.source, path.parent, root, inside)
        for data in (out.data for out in cell.get("outputs", []) if "data" in out):
            if "text/markdown" in data:
                text = data["text/markdown"]
                data["text/markdown"] = to_repository(text, path.parent, root, inside)
    cells = with_claim_anchors(cells)
    notebook.cells = [*cells, nbformat.v4.new_markdown_cell(foot)] if foot else cells
    return notebook


def address(root: Path) -> str:
    """Where the book is published, with a slash at its end; "" while the owner is not named."""
    owner, project = publish.repository_name(root).split("/")
    return "" if owner == "OWNER" else f"https://{owner.lower()}.github.io/{project}/"


# ---- the glossary ----


def term_anchor(name: str) -> str:
    """Where the glossary page has a term: "term-induction-head" of "induction head"."""
    return "term-" + re.sub(r"\W+", "-", name.lower()).strip("-")


def glossary_page(terms: dict[str, Term], stems: dict[str, str]) -> str:
    """The glossary as a Markdown page, by name; stems: {"10": "10_induction_heads"}."""
    lines = [
        "# Glossary",
        "",
        "The terms as these notebooks use them, each with the tour that explains it first.",
    ]
    for name in sorted(terms, key=str.lower):
        term, stem = terms[name], stems.get(terms[name].notebook)
        also = f", also *{', '.join(term.also)}*" if term.also else ""
        where = f" [Notebook {term.notebook}](notebooks/{stem}.ipynb)" if stem else ""
        lines += ["", f"({term_anchor(name)})=", f"**{name}**{also}: {term.meaning}{where}"]
        lines += ["", f"$${term.formula}$$"] if term.formula else []
    return "\n".join([*lines, ""])
