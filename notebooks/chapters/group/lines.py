"""A reading group's results: one line each, gathered from a chat into figures and a board.

In the folder notebooks, `python -m chapters.group.lines --ready NAME` says whether this machine is
ready, and `python -m chapters.group.lines chat.txt` draws what stands in a chat, to group.html.
Nothing is sent anywhere, and nothing that stands in a chat is executed.
"""

import argparse
import base64
import html
import importlib
import io
import math
import platform
import re
import unicodedata
import zlib
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import aot_helpers as aot
from aot_helpers.base.errors import check_one_of, check_whole
from aot_helpers.base.files import DATA, check_writable, read_json
from aot_helpers.teaching import progress, rules
from chapters.pages.standalone import ROOT, save_page, standalone_page

LINE = re.compile(r"\baot\s+(\w+)\s+((?:[^\s=#]+=[^\s=#]+\s+)+)#([0-9a-f]{4})\b")
BEGUN = re.compile(r"\baot\s+\w+\s+by=[^\n]{,80}")  # however it goes on
MOST = 8  # people, and settings of an experiment
NEEDED = "torch numpy pandas matplotlib seaborn tokenizers safetensors anywidget jupyterlab"
TURNED = {"<=": ">", ">=": "<", "<": ">=", ">": "<="}
STYLE = """main{max-width:60rem;margin:auto;padding:1rem;font:16px sans-serif}img{max-width:100%}
body,body.dark{background:#fff;color:#222}td,th{padding:2px 9px;text-align:left}"""


class Row(NamedTuple):
    """One line. what: an experiment's name, "done" or "ready"; place: in the text around it."""

    what: str
    by: str
    mine: int
    values: dict[str, str]
    place: int

    def number(self, name: str) -> float:
        """A value as a number; NaN where it is none."""
        try:
            number = float(self.values.get(name, "nan"))
        except ValueError:
            return math.nan
        return number if math.isfinite(number) else math.nan


@cache
def known() -> dict[str, dict]:
    """What eight runs of each experiment gave here, by its name: data/results/group.json."""
    return read_json(DATA / "results" / "group.json")["experiments"]


# ---- the line ----


def line(what: str, by: str, mine: int, **values) -> str:
    """One result as a line for any chat: of what, whose, which number, what came out, and when.

    what: an experiment's name, "done" or "ready". by: a name or pseudonym, in any alphabet. Raises
    ValueError where it is empty, or mine is not 1 to 8.
    """
    check_whole("mine", mine, 1, MOST)
    if {"by", "mine", "at"} & values.keys():
        raise ValueError(f"a line has by, mine and at already: call them otherwise in {values}")
    name = "_".join(re.sub(r"[#=]", " ", unicodedata.normalize("NFC", str(by))).split())
    if not name:
        raise ValueError(f"by must be a name or pseudonym, got {by!r}")
    pairs = {"by": name, "mine": mine} | values | {"at": f"{datetime.now():%H:%M}"}
    pairs = {key: f"{each:.4g}" if isinstance(each, float) else each for key, each in pairs.items()}
    called = known()[what]["line"] if what in known() else what
    body = " ".join([called, *(f"{key}={each}" for key, each in pairs.items())])
    return f"aot {body} #{_checksum(body)}"


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode('utf-8', 'replace')) & 0xFFFF:04x}"


def gather(text: str) -> tuple[list[Row], list[str]]:
    """The lines in a pasted chat, and what begins like one and is damaged.

    Of each person, number and kind the last line counts: two people of one name are told apart by
    their numbers.
    """
    text, rows, whole = unicodedata.normalize("NFC", text), {}, set()
    for match in LINE.finditer(text):
        body = " ".join(f"{match[1]} {match[2]}".split())
        if row := _checksum(body) == match[3] and _row(body, match.start()):
            rows.pop(row[:3], None)  # the last one stands last
            rows[row[:3]] = row
            whole.add(match.start())
    damaged = [each[0].strip() for each in BEGUN.finditer(text) if each.start() not in whole]
    return list(rows.values()), damaged


def _row(body: str, place: int) -> Row | None:
    """A line whose checksum is right; None where it is not of this group all the same."""
    called, *pairs = body.split(" ")
    values = dict(pair.split("=", 1) for pair in pairs)
    what = next((name for name, one in known().items() if called in (name, one["line"])), called)
    by, mine = values.pop("by", "").replace("_", " ").strip(), values.pop("mine", "")
    if not by or mine not in map(str, range(1, MOST + 1)):
        return None
    row = Row(what, by, int(mine), values, place)
    if what not in known():
        return row if what in ("done", "ready") else None
    needed = filter(None, (known()[what]["measure"], known()[what]["across"]))
    return None if any(math.isnan(row.number(name)) for name in needed) else row


def names_of(rows: list[Row]) -> list[str]:
    """The people of some rows, with their numbers where one name has several."""
    numbers = {row.by: {other.mine for other in rows if other.by == row.by} for row in rows}
    return [row.by if len(numbers[row.by]) == 1 else f"{row.by} {row.mine}" for row in rows]


# ---- what a chat gives: figures, the rule, the board ----


def figure(name: str, rows: list[Row]):
    """The group's results of an experiment before the gray points of eight known runs.

    Beside it, what was guessed against what came. Raises ValueError for an unknown experiment.
    """
    from aot_helpers.showing import plots

    check_one_of("experiment", name, known())
    one, rows = known()[name], [row for row in rows if row.what == name]
    up, across, settings, gray = one["measure"], one["across"], one["settings"], "made before"
    is_text = not across and isinstance(settings[0], str)
    x, people = range(1, MOST + 1) if is_text else settings, names_of(rows)
    before = [(run[across] if across else x[i], run[up]) for i, run in enumerate(one["runs"])]
    ours = [(row.number(across) if across else x[row.mine - 1], row.number(up)) for row in rows]
    labels = people
    if across:  # no axis says which setting a point is of
        labels = [f"{who}: {settings[row.mine - 1]}" for who, row in zip(people, rows, strict=True)]
    guesses = {
        who: (row.number("guess"), row.number(up))
        for who, row in zip(people, rows, strict=True)
        if not math.isnan(row.number("guess"))
    }
    guessed, beside = [*guesses.values()], "what was guessed, and what came"
    panels = {"by setting": {gray: before, "the group": ours}}
    panels |= {beside: {"the group": guessed}} if guessed else {}
    for groups in panels.values():
        groups.update({each: (*zip(*at, strict=True),) or ([], []) for each, at in groups.items()})
    drawn = plots.points(
        panels,
        one["asks"],
        one["x"],
        one["y"],
        shared=False,
        width=10.5 if guessed else 8.6,
        height=4.2,
        colors={gray: plots.COLORS[4], "the group": plots.COLORS[1]},
        names={"by setting": dict(zip(labels, ours, strict=True)), beside: guesses},
    )
    if is_text:
        drawn.axes[0].set_xticks(x, settings, rotation=30, ha="right")
    scale = "log" if one["log"] else "linear"
    drawn.axes[0].set(xscale=scale, yscale=scale)
    for axes in drawn.axes[1:]:
        axes.axline(guessed[0][1:] * 2, slope=1, color="0.6", lw=1, ls="--", zorder=0)
        ends = min(map(min, guessed)), max(map(max, guessed))
        room = (ends[1] - ends[0]) / 12 or 1
        ends = ends[0] - room, ends[1] + room
        axes.set(xlabel="guessed", ylabel="came", xlim=ends, ylim=ends)
    return drawn


def verdict(rule: str, name: str, rows: list[Row], text: str) -> str:
    """What the ledger's judge says of a rule, such as "max half <= 350 and min half >= 200".

    Only a rule that stands in the text before the first result is confirmed or refuted; another one
    holds or fails. Raises ValueError for what is no rule, and where nothing was measured.
    """
    rows, verdicts = [row for row in rows if row.what == name], []
    if not rows:
        raise ValueError(f"there is no result of {name!r} yet: a rule needs one")
    first = unicodedata.normalize("NFC", text)[: min(row.place for row in rows)]
    before = " ".join(rule.split()) in " ".join(first.split())
    for term in " ".join(rule.split()).split(" and "):
        if not (parts := rules.TERM.fullmatch(term)):
            raise ValueError(f"{term!r} is no rule: write one such as 'max half <= 350'")
        fails = term.replace(f" {parts[3]} ", f" {TURNED[parts[3]]} ")
        one = rules.Claim(
            "rule",
            rule,
            "the group",
            kind="identity",
            before=before,
            holds=term,
            fails=fails,
            unit=known()[name]["y"],
        )
        values = [row.number(parts[2] or known()[name]["measure"]) for row in rows]
        verdicts.append(rules.judge(one, {parts[2] or "": values}))
    word = max(verdicts, key=rules.WORDS[before].index)
    return f"{word}: {rule} ({len(rows)} results{'' if before else ', not declared before'})"


def board(rows: list[Row], session: str) -> str:
    """People × the exercises of a session, as HTML: solved, tried or open, and how often."""
    numbers, kinds = progress.exercises_of(session), {name[0]: name for name in progress.BOXES}
    rows, people = [row for row in rows if row.what in ("done", "ready")], {}
    for who, row in zip(names_of(rows), rows, strict=True):
        cells = people.setdefault(who, {})
        cells |= {"ready": html.escape(row.values.get("os", "yes"))} if row.what == "ready" else {}
        for number in set(numbers) & row.values.keys():
            if state := re.fullmatch(r"([sto])(\d{,3})", row.values[number], re.ASCII):
                cells[number] = progress.box_html(kinds[state[1]], f"{number}: ") + state[2]
    head = "".join(f"<th>{number}</th>" for number in ["", "ready", *numbers])
    body = "".join(
        f"<tr><th>{html.escape(who)}</th>"
        + "".join(f"<td>{cells.get(each, '')}</td>" for each in ["ready", *numbers])
        + "</tr>"
        for who, cells in people.items()
    )
    return f"<table><tr>{head}</tr>{body}</table>" if people else ""


def done_line(session: str, by: str, mine: int) -> str:
    """What my/progress.json holds of a session's exercises, as a line for the board."""
    path = progress.progress_path()
    kept = progress.read(path) if path else {}
    states = {
        n: f"{kept[n]['status'][0]}{kept[n]['tries']}" if n in kept else "o"
        for n in progress.exercises_of(session)
    }
    return line("done", by, mine, **states)


def page(text: str, rule: str = "") -> str:
    """All that stands in a chat as one page: the verdict, figures with tables, boards, damage."""
    import pandas

    (rows, damaged), parts = gather(text), []
    measured = [row.what for row in rows if row.what in known()]
    if rule and measured:
        most = max(measured, key=measured.count)
        parts = [f"<p><b>{html.escape(verdict(rule, most, rows, text))}</b></p>"]
    for name in dict.fromkeys(measured):
        ours, picture = [row for row in rows if row.what == name], io.BytesIO()
        figure(name, ours).savefig(picture, format="png", dpi=110)
        source = f"data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}"
        table = pandas.DataFrame([{"mine": row.mine} | row.values for row in ours], names_of(ours))
        parts += [f'<img alt="{known()[name]["asks"]}" src="{source}">', table.to_html(border=0)]
    numbers = {number for row in rows if row.what == "done" for number in row.values}
    some = [each for each in "123456" if numbers & {*progress.exercises_of(each)}] or ["1"]
    parts += [board(rows, each) for each in some]
    copy = "Damaged and not counted; copy it again:"
    parts += [f"<p>{copy} {html.escape(each)}</p>" for each in damaged]
    main = f"<main><h1>The group</h1>{''.join(parts)}</main>"
    about = "The group", "What a reading group guessed, measured and solved, from its own lines."
    return standalone_page("group", about, main, STYLE, "")


# ---- is this machine ready? ----


def ready(by: str, mine: int = 1) -> str:
    """Try this machine out: what is wrong and what to do, or a line for the board."""
    python, problems, speed = platform.python_version_tuple()[:2], [], 0
    needs = re.search(
        r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text("utf-8")
    )
    if not int(needs[1]) <= int(python[1]) < int(needs[2]):
        problems.append(f"Python 3.{python[1]}: install 3.{needs[1]} to 3.{int(needs[2]) - 1}")
    for what in (*NEEDED.split(), "training", "progress"):
        try:
            if what == "training":
                model, how = aot.load_checkpoint("stories-2l"), aot.TrainConfig(5)
                batch = aot.repeated_tokens(1024, 32, 16, model.tokenizer.bos)
                speed = round(5 / aot.train(model, [batch] * 5, how, quiet=True).seconds)
            elif what != "progress":
                importlib.import_module(what)
            elif path := progress.progress_path():
                check_writable(path.parent)
                progress.read(path)
        except Exception as error:  # whatever a broken machine raises
            problems.append(f"{what}: {error or type(error).__name__}; see docs/install.md")
    if problems:
        return "\n".join(["not ready yet", *problems])
    torch = importlib.import_module("torch").__version__.split("+")[0]
    facts = {"os": platform.system(), "python": ".".join(python), "torch": torch}
    return f"ready\n{line('ready', by, mine, **facts, steps_per_s=speed)}"


def main(arguments: list[str] | None = None) -> int:
    """Say whether this machine is ready, or draw what stands in a chat."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("chat", nargs="?", type=Path, help="a file with the pasted chat")
    parser.add_argument("--ready", metavar="NAME", help="try this machine out")
    parser.add_argument("--mine", type=int, default=1, help="your number, 1 to 8")
    parser.add_argument("--rule", default="", help='such as "max half <= 350"')
    parser.add_argument("-o", type=Path, default=Path("group.html"), help="default: group.html")
    options = parser.parse_args(arguments)
    if options.ready:
        print(report := ready(options.ready, options.mine))
        return int(report.startswith("not"))
    if options.chat is None:
        parser.error("give the file with the chat, or --ready NAME")
    aot.setup()  # fonts for names in any alphabet
    text = options.chat.read_text("utf-8", errors="replace")
    save_page(options.o, page(text, options.rule))
    print(f"{options.o}: {len(gather(text)[0])} lines, {len(gather(text)[1])} damaged")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
