"""The pages of a reading group from its notes, docs/group/1.md … 6.md: `make group`.

Slides, a handout and the leader's page of each session, in build/group, made from the committed
notebooks; nothing is executed. `python tools/group.py measure` runs the experiments instead, and
keeps what they gave in data/results/group.json.
"""

import ast
import base64
import html
import io
import re
import sys
import time
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import nbformat
from nbconvert.filters import markdown2html

import here
import lesson
from aot_helpers import setup
from aot_helpers.base import results
from aot_helpers.teaching.progress import TASK
from book_pages import MARKUP, alt_text, figure_title, sentences, spoken
from chapters.group import lines
from chapters.group.experiments import EXPERIMENTS
from chapters.pages.playground import measured as of_the_playground
from chapters.pages.standalone import save_page, standalone_page
from glossary import load_glossary

ROOT = here.ROOT
NOTES, PARTS = ROOT / "docs" / "group", ROOT / "tools" / "pages"
KINDS = {"slides": "Slides", "handout": "Handout", "leader": "Leader's page"}
WHERE = {"do": "In the room", "home": "At home", "skip": "Left out"}
MARK = re.compile(r'@(vote|show) (\d\d) "(.+)"|@(do|home|skip) ([\d., ]+?)(?:: (.+))?|@group (\w+)')
OPTION = re.compile(r"- (.+?)( ✔)?(?: — (.+))?")
STUCK = (
    "Stuck? After 8 minutes unfold the hint; after 14 look at your neighbor's screen; after 17 "
    "unfold the solution and explain each line to each other. The notebook goes on in any case."
)
PART = re.compile(r"## (?:(\d+) min · )?(.+)")
# ---- the notes ----


@dataclass
class Mark:
    """A line that begins with @: what it points at, and where it stands, as page:line."""

    kind: str
    tour: str
    text: str  # the beginning of a prediction or title, the name of an experiment, a reason
    numbers: list[str]  # of exercises
    where: str
    options: list[tuple[str, bool, str]] = field(default_factory=list)  # text, right?, reveals


@dataclass
class Part:
    """What stands under a heading; without minutes it is for paper, or the end."""

    title: str
    minutes: int
    items: list = field(default_factory=list)  # marks, and lines of text

    def text(self) -> str:
        """Its lines for everybody: no marks, and nothing that only the leader reads."""
        lines = [e for e in self.items if isinstance(e, str) and not e.startswith(">")]
        return "\n".join(lines).strip()


@dataclass
class Session:
    """The notes of a session; the first part is what stands above the headings."""

    number: int
    title: str
    tours: list[str]
    parts: list[Part]

    def marks(self, kind: str) -> list[Mark]:
        """Its marks of one kind."""
        every = [each for part in self.parts for each in part.items]
        return [each for each in every if isinstance(each, Mark) and each.kind == kind]

    def exercises(self, kind: str) -> list[str]:
        """The numbers of the exercises with this mark."""
        return [number for mark in self.marks(kind) for number in mark.numbers]


def read_notes(path: Path) -> Session:
    """A page of notes. Raises ValueError, with page and line, for a mark that is none."""
    first, *lines = path.read_text("utf-8").splitlines()
    number, title = re.fullmatch(r"# Session (\d) · (.+)", first).groups()
    parts = [Part("", 0)]
    for n, line in enumerate(lines, 2):
        where, items = f"docs/group/{path.name}:{n}", parts[-1].items
        is_vote = items and isinstance(items[-1], Mark) and items[-1].kind == "vote"
        if found := MARK.fullmatch(line):
            text = found[3] or found[6] or found[7] or ""
            numbers = found[5].split(", ") if found[5] else []
            items.append(Mark(found[1] or found[4] or "group", found[2], text, numbers, where))
        elif line.startswith("@"):
            raise ValueError(f"{where}: {line!r} is no mark; docs/group/README.md has them all")
        elif found := PART.fullmatch(line):
            parts.append(Part(found[2], int(found[1] or 0)))
        elif is_vote and (found := OPTION.fullmatch(line)):
            items[-1].options.append((found[1], bool(found[2]), found[3] or ""))
        else:
            items.append(line)
    tours = re.search(r"(?m)^Tours: ([\d, ]+)", parts[0].text())[1].split(", ")
    return Session(int(number), title, tours, parts)


SESSIONS = [read_notes(path) for path in sorted(NOTES.glob("[0-9].md"))]


# ---- what the marks point at ----


@cache
def cells_of(number: str) -> list:
    """The cells of a committed tour."""
    (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    return nbformat.read(path, as_version=4).cells


def png_of(cell) -> str:
    """The picture of a cell, in base64; "" where it has none."""
    found = [out.data.get("image/png", "") for out in cell.get("outputs", []) if "data" in out]
    return "".join("".join(found[-1:]).split())


def the_one(mark: Mark, what: str, texts: list[str]) -> int:
    """The index of the only text that begins as the mark says. Raises ValueError, with its line."""
    begin = [i for i, text in enumerate(texts) if text.startswith(mark.text)]
    if len(begin) != 1:
        there = "\n- ".join(["", *filter(None, texts)])
        raise ValueError(
            f"{mark.where}: {len(begin)} {what} of tour {mark.tour} begin {mark.text!r} "
            f"(one must); there are: {there}"
        )
    return begin[0]


def prediction(mark: Mark) -> tuple[str, list]:
    """The question of a vote in Markdown, and the cells that answer it."""
    every = lesson.predictions({"cells": cells_of(mark.tour)})
    every = [(re.sub(r"^\*\*.*?\*\*:? ", "", question), cells) for question, cells in every]
    texts = [MARKUP.sub(r"\1", question) for question, _ in every]
    question, cells = every[the_one(mark, "predictions", texts)]
    return question[0].upper() + question[1:], cells


def figure_cells(mark: Mark) -> list:
    """The cell that draws a figure, in a list."""
    cells = cells_of(mark.tour)
    titles = [figure_title(cell.source) if png_of(cell) else "" for cell in cells]
    return [cells[the_one(mark, "figures", titles)]]


@cache
def exercise(number: str) -> tuple[str, str]:
    """The task of an exercise, with number, kind and minutes, and its solution, in Markdown."""
    for cell in (cell for cell in cells_of(number[:2]) if cell.cell_type == "markdown"):
        for part in re.split(r"(?=\*\*Exercise )", cell.source):
            if (head := TASK.match(part)) and head[1] == number:
                solution = re.search(r"(?s)<summary>Solution</summary>(.*?)</details>", part)
                task = part[head.end() :].split("\n\n<details>")[0]
                return f"**{number}** ({head[2]}, {head[3]} minutes).{task}", solution[1].strip()
    raise ValueError(f"tour {number[:2]} has no exercise {number}")


def messages(number: str) -> list[str]:
    """What the check of an exercise says of wrong answers, read from the code of its chapter."""
    (path,) = (ROOT / "notebooks/chapters").glob(f"nb{number[:2]}_*/exercises.py")
    shared = ROOT / "aot_helpers/teaching/exercises/attention.py"
    known, seen, texts = {}, set(), []
    for node in ast.parse(shared.read_text("utf-8") + path.read_text("utf-8")).body:
        for name in node.targets if isinstance(node, ast.Assign) else [node]:
            known[getattr(name, "id", getattr(name, "name", ""))] = node
    checks = known["CHECKS"].value
    left = [v for k, v in zip(checks.keys, checks.values, strict=True) if k.value == number]
    while left:
        for node in ast.walk(left.pop(0)):
            if isinstance(node, ast.Name) and node.id in known.keys() - seen:
                seen.add(node.id)
                left.append(known[node.id])
            raised = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "NotYet"
            nodes = node.args if raised else node.keys if isinstance(node, ast.Dict) else []
            texts += [spoken(each, {}) for each in nodes if each]
    whole = [each for each in texts if re.fullmatch(r"[A-Z].*[.?]", each) and each.count(" ") > 4]
    return list(dict.fromkeys(whole))


# ---- pieces of pages ----


def as_html(text: str) -> str:
    """Markdown as HTML, without links, with simple formulas as letters."""

    def letters(found: re.Match) -> str:
        plain = re.sub(r"\\(?=ln)|\\text|\\,", "", found[1].replace(r"\delta", "δ"))
        plain = re.sub(r"_{?(\w+)}?", r"<sub>\1</sub>", plain)
        return f"<i>{plain}</i>"

    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", re.sub(r"\$([^$\n]+)\$", letters, text))
    return re.sub(r'<a class="anchor-link".*?</a>', "", markdown2html(text))


def image_html(png: str, alt: str) -> str:
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{png}">'


def output_html(number: str, cells: list) -> str:
    """What some cells of a tour show: their last picture, else what they print."""
    every, drawn = cells_of(number), [cell for cell in cells if png_of(cell)]
    if drawn:
        return image_html(png_of(drawn[-1]), alt_text(every, every.index(drawn[-1])))
    parts = []
    for out in (out for cell in cells for out in cell.outputs):
        table = re.sub(r"(?s)<style.*?</style>", "", out.get("data", {}).get("text/html", ""))
        text = out.get("text", out.get("data", {}).get("text/plain", ""))
        parts.append(table if "<table" in table else f"<pre>{html.escape(text.strip())}</pre>")
    return "".join(parts)


def sentence_after(number: str, cells: list) -> str:
    """The first sentence of the text after some cells of a tour."""
    after = cells_of(number)[cells_of(number).index(cells[-1]) + 1]
    every = sentences(after.source) if after.cell_type == "markdown" else []
    return html.escape(next((each for each in every if "$" not in each), ""))


def task_html(number: str, for_leader: bool = False) -> str:
    """An exercise; for the leader with its solution and what people write instead."""
    (text, solution), more = exercise(number), ""
    if for_leader:
        mistakes = "".join(f"<li>{html.escape(each)}</li>" for each in messages(number)[:8])
        more = as_html(solution)
        more += f"<p>What people write instead:</p><ul>{mistakes}</ul>" * bool(mistakes)
    return f'<div class="task">{as_html(text)}{more}</div>'


def experiment_html(mark: Mark, session: Session) -> str:
    """A group experiment: the question, the eight settings, where it runs."""
    one, how = EXPERIMENTS[mark.text], "the playground: your number is the seed; copy the result"
    settings = "".join(f"<li>{each}</li>" for each in one.settings)
    if one.run:
        how = f"notebooks/group.ipynb, session {session.number}; paste your line into the chat"
    settings = "" if one.x == "seed" else f'<ol class="settings">{settings}</ol>'
    return f"<h2>{one.asks}</h2><p>Guess the {one.y}. Then open {how}.</p>{settings}"


def new_terms(session: Session) -> list:
    """The glossary's terms that this session's tours are the first on the route to use."""

    def prose(numbers: list[str]) -> str:
        cells = [cell for number in numbers for cell in cells_of(number)]
        return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")

    before = prose([n for each in SESSIONS[: session.number - 1] for n in each.tours])
    now, terms = prose(session.tours), load_glossary().values()
    terms = [t for t in terms if t.notebook in session.tours or not t.ordinary]
    return [t for t in terms if t.pattern.search(now) and not t.pattern.search(before)]


# ---- the pages ----


def slides(session: Session) -> str:
    """The slides: the question always before what answers it."""
    plan = "".join(f"<li>{part.title}</li>" for part in session.parts if part.minutes)
    found = [f"<h1>{session.title}</h1><ol>{plan}</ol>"]
    for part in session.parts[1:]:
        if part.text() and not part.title.startswith("Sheet"):
            found.append(f"<h2>{part.title}</h2>{as_html(part.text())}")
        for mark in (each for each in part.items if isinstance(each, Mark)):
            if mark.kind == "vote":
                question, cells = prediction(mark)
                listed = "".join(f"<li>{as_html(text)}</li>" for text, *_ in mark.options)
                right = "".join(as_html(f"✔ {text}") for text, yes, _ in mark.options if yes)
                found.append(f'{as_html(question)}<ol type="A">{listed}</ol>')
                after = f"<p>{sentence_after(mark.tour, cells)}</p>"
                found.append(output_html(mark.tour, cells) + right + after)
            elif mark.kind == "show":
                cells = figure_cells(mark)
                found.append(
                    f"{output_html(mark.tour, cells)}<p>{sentence_after(mark.tour, cells)}</p>"
                )
            elif mark.kind == "group":
                found.append(experiment_html(mark, session))
            elif mark.kind == "do":
                found += [f"<h2>In pairs</h2>{task_html(number)}" for number in mark.numbers]
    return "".join(f"<section><div>{each}</div></section>" for each in found)


def handout(session: Session) -> str:
    """Two pages of paper: terms and boxes for guesses; sheets, exercises, what to do if stuck."""
    questions = [MARKUP.sub(r"\1", prediction(mark)[0]) for mark in session.marks("vote")]
    questions += [EXPERIMENTS[mark.text].asks for mark in session.marks("group")]
    empty = 3 * "</td><td>"
    boxes = "".join(f"<tr><td>{html.escape(each)}{empty}</td></tr>" for each in questions)
    terms = "".join(as_html(f"**{term.name}**: {term.meaning}") for term in new_terms(session))
    sheets = [p for p in session.parts if p.title.startswith("Sheet")]
    back = [f'<h2>{p.title[8:]}</h2><div class="sheet">{as_html(p.text())}</div>' for p in sheets]
    for kind in ("do", "home"):
        back += [f"<h2>{WHERE[kind]}</h2>", *map(task_html, session.exercises(kind))]
    return (
        f"<h1>Session {session.number} · {session.title}</h1>{as_html(session.parts[0].text())}"
        "<table><tr><th></th><th>my guess</th><th>after talking</th><th>measured</th></tr>"
        f'{boxes}</table><h2>New terms</h2><div class="terms">{terms}</div><div class="back">'
        f"{''.join(back)}<p>{STUCK}</p></div>"
    )


def leader(session: Session) -> str:
    """The notes as they stand, with answers, solutions, typical mistakes and a plan B."""
    found, clock = [f"<h1>Session {session.number} · {session.title}</h1>"], 0
    for part in session.parts:
        times = f"{clock} to {clock + part.minutes} min · " if part.minutes else ""
        found += [f"<h2>{times}{part.title}</h2>"] if part.title else []
        clock, lines = clock + part.minutes, []
        for item in [*part.items, None]:
            if isinstance(item, str):
                lines.append(re.sub(r"^> ([^:]+:)(.*)", r"> **\1**\2\n>", item))
            else:
                found.append(as_html("\n".join(lines)) + (mark_html(item, session) if item else ""))
                lines = []
    return "".join(found)


def mark_html(mark: Mark, session: Session) -> str:
    """What a mark of the notes means, for the leader."""
    if mark.kind == "vote":
        question, cells = prediction(mark)
        listed = [f"- {text}{' ✔' * yes}: {why}".rstrip(": ") for text, yes, why in mark.options]
        page = as_html(f"**Vote, {mark.tour}.** {question}\n\n" + "\n".join(listed))
        page += f"<p>{sentence_after(mark.tour, cells)}</p>"
    elif mark.kind == "show":
        page = as_html(f"**Show, {mark.tour}.** {figure_title(figure_cells(mark)[0].source)}")
    elif mark.kind == "group":
        drawn = io.BytesIO()
        lines.figure(mark.text, []).savefig(drawn, format="png", dpi=80)
        page = f"{experiment_html(mark, session)}<p>Where nothing runs, show this:</p>"
        page += image_html(base64.b64encode(drawn.getvalue()).decode(), "Eight known runs")
    else:
        page = as_html(f"**{WHERE[mark.kind]}:** {', '.join(mark.numbers)}. {mark.text}")
        page += "".join(task_html(number, True) for number in mark.numbers if mark.kind != "skip")
    return f'<div class="mark">{page}</div>'


def save(number: int, kind: str, path: Path) -> int:
    """Write a page; its size in bytes."""
    return save_page(path, page(number, kind))


def page(number: int, kind: str) -> str:
    """One page of a session as HTML; number 0: docs/group/README.md, with links to all pages."""
    style, script = ((PARTS / name).read_text("utf-8") for name in ("group.css", "slides.js"))
    if number:
        session = SESSIONS[number - 1]
        made = {"slides": slides, "handout": handout, "leader": leader}[kind](session)
        about = f"{KINDS[kind]} {number} of 6", f"{session.title} A session of a reading group."
    else:
        links = "".join(
            f' · <a href="\\1-{name}.html">{title}</a>' for name, title in KINDS.items()
        )
        text = (NOTES / "README.md").read_text("utf-8")
        made = as_html(re.sub(r"\[(\d)\]\(\d\.md\)", rf"\1{links}", text))
        about = "A reading group in six sessions", "Slides, handouts and notes for eight people."
    main, name = f'<main class="{kind or "leader"}">{made}</main>', f"group/{number}-{kind}"
    return standalone_page(name, about, main, style, script if kind == "slides" else "")


PAGES = {"group/index.html": partial(save, 0, "")} | {
    f"group/{n}-{kind}.html": partial(save, n, kind) for n in range(1, 7) for kind in KINDS
}


def measure() -> None:
    """Run eight settings of each experiment, one after the other, and keep what they gave."""
    setup()
    kept, born = {}, {run["seed"]: run["at"] for run in of_the_playground()["seeds"]}
    for name, one in EXPERIMENTS.items():
        kept[name] = {key: value for key, value in vars(one).items() if key != "run"}
        kept[name] |= {"runs": [], "seconds": []}
        for setting in one.settings:
            started = time.process_time()
            run = one.run(setting) if one.run else {one.measure: born[setting]}
            kept[name]["runs"].append(run)
            kept[name]["seconds"].append(round(time.process_time() - started, 1))
            print(name, setting, run, kept[name]["seconds"][-1], flush=True)
    results.write("group", {"experiments": results.rounded(kept)})


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        measure()
    for name, write in PAGES.items():
        print(f"build/{name}: {write(ROOT / 'build' / name) / 1000:.0f} kB")
