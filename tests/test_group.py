"""The reading group: its notes fit the tours, its pages stand alone, its lines survive a chat."""

import html.parser
import json
import random
import re
import shutil
import subprocess
import unicodedata
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import book
import book_checks
import group as pages
from aot_helpers.teaching import progress
from chapters.group import lines as group
from chapters.group.experiments import EXPERIMENTS
from chapters.pages import playground
from test_notebooks import GROUP, cells, source
from test_tour_numbers import code_of, missing_in, numbers, prose, text_of

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
SESSIONS = pages.SESSIONS
every_session = pytest.mark.parametrize("session", SESSIONS, ids=lambda s: f"session-{s.number}")
LARGEST = {"slides": 600_000, "handout": 40_000, "leader": 300_000}  # bytes
VOID = {"img", "br", "meta", "link", "hr", "input", "base", "col"}


# ---- the notes ----


def route() -> list[list[str]]:
    """The tours of each session, as the README's second route has them."""
    row = next(line for line in README.splitlines() if line.startswith("| six sessions"))
    take = row.split(" | ")[1]
    return [re.findall(r"\[(\d\d)\]", each) for each in take.split(" · ")]


def test_the_sessions_are_the_readmes_route():
    assert [session.tours for session in SESSIONS] == route()
    table = (ROOT / "docs/group/README.md").read_text("utf-8")
    told = re.findall(r"(?m)^\| \[(\d)\]\(\d\.md\) \| ([\d, ]+) \|", table)
    assert [numbers.split(", ") for _, numbers in told] == route()


@every_session
def test_its_minutes_add_up(session):
    assert sum(part.minutes for part in session.parts) == 90


@every_session
def test_each_of_its_marks_resolves_to_one_thing_of_its_tours(session):
    for mark in session.marks("vote"):
        question, answers = pages.prediction(mark)
        assert mark.tour in session.tours and question.count("?") and answers, mark.where
    for mark in session.marks("show"):
        assert mark.tour in session.tours and pages.figure_cells(mark), mark.where
    assert [mark.text for mark in session.marks("group")] == [[*EXPERIMENTS][session.number - 1]]


@every_session
def test_a_vote_has_one_right_option_and_each_wrong_one_reveals_something(session):
    assert 3 <= len(session.marks("vote")) <= 5
    for mark in session.marks("vote"):
        assert 2 <= len(mark.options) <= 5, mark.where
        assert [right for _, right, _ in mark.options].count(True) == 1, mark.where
        assert all(reveals or right for _, right, reveals in mark.options), mark.where


@every_session
def test_each_exercise_of_its_tours_stands_in_one_place(session):
    placed = sorted(number for kind in pages.WHERE for number in session.exercises(kind))
    there = [
        head[0]
        for number in session.tours
        for cell in pages.cells_of(number)
        for head in progress.TASK.findall(cell.source)
    ]
    assert placed == sorted(there)
    asked = session.exercises("do") + session.exercises("home")
    assert progress.exercises_of(str(session.number)) == sorted(asked)
    assert all(pages.exercise(number)[1] for number in asked)


@every_session
def test_every_number_of_the_notes_stands_in_its_tours(session):
    texts = [json.dumps(group.known()[[*EXPERIMENTS][session.number - 1]], ensure_ascii=False)]
    for number in session.tours:
        for cell in pages.cells_of(number):
            is_code = cell.cell_type == "code"
            outputs = map(text_of, cell.get("outputs", []))
            texts += [code_of(cell) if is_code else cell.source, *outputs]
    shown = [numbers(text) for text in texts]
    path = ROOT / f"docs/group/{session.number}.md"
    for n, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        line = re.sub(r"^@.*|^## \d+ min|(?i:session|tour)s? \d+", "…", line)
        found = missing_in(prose(line), set().union(*shown), shown)
        assert [each[0] for each in found] == [], f"docs/group/{path.name}:{n}"


def test_a_tour_that_changes_is_named_with_page_and_line(tmp_path):
    told = (ROOT / "docs/group/1.md").read_text("utf-8").replace("An unknown name", "A known name")
    (tmp_path / "1.md").write_text(told, "utf-8")
    line = next(n for n, each in enumerate(told.splitlines(), 1) if "A known name" in each)
    with pytest.raises(ValueError, match=rf"docs/group/1.md:{line}: 0 figures of tour 00 begin 'A"):
        pages.slides(pages.read_notes(tmp_path / "1.md"))
    (tmp_path / "1.md").write_text("# Session 1 · A\n\nTours: 00. B\n\n@shows 00 x\n", "utf-8")
    with pytest.raises(ValueError, match="docs/group/1.md:5: '@shows 00 x' is no mark"):
        pages.read_notes(tmp_path / "1.md")
    with pytest.raises(ValueError, match="tour 00 has no exercise 00.9"):
        pages.exercise("00.9")


def test_what_a_route_asks_to_know_before_is_on_it():
    on_route = [number for each in route() for number in each]
    for i, number in enumerate(on_route):
        text = "\n".join(cell.source for cell in pages.cells_of(number))
        (before,) = re.findall(r"\*\*Know before:\*\*(.*?)\*\*Time", text)
        linked = re.findall(r"\]\((\d\d)_\w+\.ipynb\)", before)
        assert set(linked) <= set(on_route[:i]), number


# ---- the pages ----


class Tags(html.parser.HTMLParser):
    """Whether every element of a page is closed where it should be."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.wrong = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append((tag, self.getpos()))


@pytest.mark.parametrize("kind", pages.KINDS)
@every_session
def test_a_page_is_well_formed_small_and_asks_for_nothing(session, kind):
    page = pages.page(session.number, kind)
    assert len(page.encode()) <= LARGEST[kind]
    tags, parsed = Tags(page), book_checks.Page(page)
    assert tags.wrong == [] and tags.open == []
    assert parsed.loads and {each[:5] for each in parsed.loads} == {"data:"}
    assert parsed.silent == [] and parsed.links in ([], [parsed.links[-1]])
    main = page[page.index("<main") : page.index("</main>")]
    assert not re.search(
        r"@\w+ \d\d|\]\(|\*\*|\$|https?:", re.sub(r"<pre>.*?</pre>", "", main, flags=re.S)
    ), kind


@every_session
def test_slides_ask_before_they_answer_and_keep_the_leaders_words_out(session):
    made = pages.slides(session)
    assert 12 <= made.count("<section>") <= 18
    for mark in session.marks("vote"):
        question, answers = pages.prediction(mark)
        right = next(text for text, yes, _ in mark.options if yes)
        asked = made.index(pages.as_html(question).strip())
        assert asked < made.index("✔ " + pages.as_html(right)[3:-5].strip(), asked), mark.where
        assert "✔" not in made[asked : made.index("</section>", asked)], mark.where
    for item in (item for part in session.parts for item in part.items):
        assert not str(item).startswith(">") or str(item)[6:40] not in made
    assert "Say:" not in made and "Ask:" not in made


@every_session
def test_a_handout_has_boxes_for_guesses_and_all_exercises(session):
    made = pages.handout(session)
    n = len(session.marks("vote")) + len(session.marks("group"))
    assert made.count("<td></td><td></td><td></td></tr>") == n
    for number in session.exercises("do") + session.exercises("home"):
        assert f"<strong>{number}</strong>" in made
    assert not any(f"<strong>{number}</strong>" in made for number in session.exercises("skip"))
    assert "def " not in made  # no solution


def test_terms_are_new_once_on_the_route():
    new = [term.name for session in SESSIONS for term in pages.new_terms(session)]
    assert len(new) == len(set(new)) > 30
    assert {"induction head", "embedding", "causal mask", "logit", "bigram"} <= set(new)


@every_session
def test_the_leaders_page_has_solutions_and_what_people_write_instead(session):
    made = pages.leader(session)
    for number in session.exercises("do"):
        assert pages.as_html(pages.exercise(number)[1]).strip() in made
    assert "Eight known runs" in made and "Say:" in made


def test_what_people_write_instead_is_what_the_checks_say():
    told = pages.messages("03.2")
    assert "W_O is missing: z still has to be written back." in told
    assert "A token attends to later tokens: where is the causal mask?" in told  # of the library
    assert any("zero_grad" in each for each in pages.messages("05.2"))
    assert not set(told) & set(pages.messages("03.3"))


def test_the_book_has_every_page():
    assert set(pages.PAGES) <= set(book.ALONE)
    links = book_checks.Page(pages.page(0, "")).links
    assert {f"group/{each}" for each in links if each[0].isdigit()} == set(pages.PAGES) - {
        "group/index.html"
    }


# ---- the line ----


def chat(*lines: str) -> str:
    return "".join(f"[10:0{i}] Person {i}: look, {each} !\n" for i, each in enumerate(lines))


def seed_line(by="Ana", mine=3, half=325, **more):
    return group.line("seeds", by, mine, guess=300, half=half, copied=0.85, **more)


def test_a_line_is_found_among_other_text_and_the_last_one_counts():
    first, last = seed_line(half=275), seed_line()
    assert re.fullmatch(
        r"aot 09 by=Ana mine=3 guess=300 half=325 copied=0.85 at=\d\d:\d\d #\w{4}", last
    )
    rows, damaged = group.gather(chat(first, "half=1", last))
    assert damaged == [] and [(row.what, row.by, row.mine) for row in rows] == [("seeds", "Ana", 3)]
    assert rows[0].number("half") == 325 and rows[0].number("copied") == 0.85
    known = "aot 09 by=Ana mine=3 guess=300 half=325 middle=75 copied=0.85 at=10:41 #bd09"
    assert group.gather(known)[0][0].number("middle") == 75


@pytest.mark.parametrize(
    "name", ["Ana Maria", "Zoë", "李雷", "Алёна", "ن", "🦊", "o'Neil <b>", "A=b #c"]
)
def test_a_name_may_be_in_any_alphabet(name):
    kept = " ".join(re.sub("[#=]", " ", name).split())
    for form in ("NFC", "NFD"):
        text = unicodedata.normalize(form, seed_line(by=name))
        ((row,), damaged) = group.gather(text)
        assert row.by == unicodedata.normalize("NFC", kept) and damaged == []


def test_two_people_of_one_name_are_told_apart():
    rows, _ = group.gather(chat(seed_line(mine=3), seed_line(mine=5), seed_line("Bo", 1)))
    assert group.names_of(rows) == ["Ana 3", "Ana 5", "Bo"]


def test_windows_line_ends_and_wrapped_lines_do_no_harm():
    lines = [seed_line(mine=i) for i in range(1, 9)]
    text = "\r\n".join(lines).replace(" guess", "\r\nguess")
    assert [row.mine for row in group.gather(text)[0]] == list(range(1, 9))


@pytest.mark.parametrize("number", [0, 9, "3", 2.5, True])
def test_a_number_that_is_none_is_refused(number):
    with pytest.raises(
        ValueError, match=f"mine must be a whole number from 1 to 8, got {number!r}"
    ):
        group.line("seeds", "Ana", number)
    with pytest.raises(ValueError, match="by must be a name or pseudonym, got ' #'"):
        group.line("seeds", " #", 1)
    with pytest.raises(ValueError, match="has by, mine and at already"):
        group.line("seeds", "Ana", 1, at=0.5)


def signed(body: str) -> str:
    return f"aot {body} #{group._checksum(body)}"


@pytest.mark.parametrize(
    "body",
    [
        "09 by=A mine=9 half=1",
        "09 by=A mine=² half=1",
        "09 by=A mine=1 half=nan",
        "09 by=A half=1",
        "09 by=A mine=1 half=1e999",
        "09 by=A mine=1 half=high",
        "77 by=A mine=1 half=1",
        "09 by=_ mine=1 half=1",
    ],
)
def test_a_line_with_a_right_checksum_that_cannot_be_is_not_counted(body):
    assert group.gather(signed(body)) == ([], [signed(body)])


def mangled(line: str, draw: random.Random) -> str:
    """A line after what chats, phones and people do to it; never itself."""
    signs = list(line)
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(signs))
        kind = draw.choice(["drop", "swap", "other", "double", "cut", "quote"])
        if kind == "drop":
            del signs[place : place + (len(signs) > 1)]
        elif kind == "other":
            signs[place] = draw.choice("0123456789=#_ .,-–“x\u200b\ud800é\n")
        elif kind == "double":
            signs.insert(place, signs[place])
        elif kind == "cut":
            signs = signs[:place] or ["a"]
        elif kind == "quote":
            signs.insert(place, "\n> ")
        elif place:
            signs[place - 1 : place + 1] = signs[place - 1 : place + 1][::-1]
    return "".join(signs)


def test_a_thousand_mangled_lines_never_crash_it_and_no_wrong_one_counts():
    draw, noise, whole = random.Random(0), "aot #=\n\r\t…09 by=mine🦊ab1.", {}
    for i in range(1000):
        line = seed_line(
            by=f"P{draw.randrange(30)}", mine=draw.randint(1, 8), half=draw.randint(0, 450)
        )
        broken = mangled(line, draw)
        around = ["".join(draw.choices(noise, k=draw.randrange(40))) for _ in range(3)]
        rows, _ = group.gather(f"{around[0]}\n{broken}\n{around[1]}\n{line}\n{around[2]}")
        said = dict(pair.split("=") for pair in line.split()[2:-1])
        assert {(row.by, row.mine, row.values["half"]) for row in rows} == {
            (said["by"], int(said["mine"]), said["half"])
        }, (i, broken)
        rows, damaged = group.gather(broken)
        assert all(row.values == {k: said[k] for k in row.values} for row in rows), (i, broken)
        whole[i] = bool(rows)
    assert sum(whole.values()) < 300  # what was cut off behind the line, or only its spaces


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_playground_makes_the_same_checksum():
    script = playground._part("view.js")
    function = script[script.index("function checksum") :]
    function = function[: function.index("\n}\n") + 3]
    bodies = ["birth by=Zoë mine=3 step=160 at=10:41", "birth by=李雷_🦊 mine=8 step=5 at=00:00"]
    code = f"{function}for (const each of {json.dumps(bodies)}) console.log(checksum(each));"
    told = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True).stdout
    assert told.split() == [group._checksum(each) for each in bodies]
    assert "birth by=${by} mine=${settings().seed} step=${state.copied} at=" in script


# ---- what a chat gives ----


def test_a_rule_in_the_chat_before_the_first_result_is_confirmed_or_refuted():
    lines = [seed_line(mine=i, half=250 + 10 * i) for i in range(1, 5)]
    for rule, (word, late) in {
        "max half <= 300": ("confirmed", "holds"),
        "max half <= 280 and min half >= 200": ("refuted", "fails"),
        "max <= 300 and min copied >= 0.8": ("confirmed", "holds"),
    }.items():
        text = chat(f"I say {rule}.", *lines)
        assert group.verdict(rule, "seeds", group.gather(text)[0], text).startswith(
            f"{word}: {rule} (4 "
        )
        text = chat(*lines, rule)
        said = group.verdict(rule, "seeds", group.gather(text)[0], text)
        assert said.startswith(f"{late}: {rule}") and "not declared before" in said


@pytest.mark.parametrize("rule", ["half is large", "max half <= high", "max other <= 3"])
def test_a_rule_that_cannot_be_judged_is_named(rule):
    rows, _ = group.gather(seed_line())
    with pytest.raises(ValueError, match="rule"):
        group.verdict(rule, "seeds", rows, "")
    with pytest.raises(ValueError, match="no result of 'seeds'"):
        group.verdict("max half <= 300", "seeds", [], "")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_figure_has_the_gray_points_and_the_groups(name):
    with pytest.raises(ValueError, match="no experiment is called 'x'"):
        group.figure("x", [])
    one, lines = EXPERIMENTS[name], []
    assert len(group.figure(name, []).axes) == 1
    for i, run in enumerate(group.known()[name]["runs"][:3], 1):
        lines.append(group.line(name, f"P{i}", i, guess=run[one.measure], **run))
    drawn = group.figure(name, group.gather("\n".join(lines))[0])
    gray, ours = (each.get_offsets() for each in drawn.axes[0].collections[:2])
    assert (len(gray), len(ours)) == (8, 3)
    assert ours.ravel().tolist() == pytest.approx(gray[:3].ravel().tolist(), rel=1e-3)
    assert [row[0] == row[1] for row in drawn.axes[1].collections[0].get_offsets()] == [True] * 3
    plt.close("all")


def test_the_board_shows_who_solved_what(tmp_path, monkeypatch):
    monkeypatch.setenv("AOT_PROGRESS", str(tmp_path / "progress.json"))
    progress.keep("03.2", True)
    for _ in range(5):
        progress.keep("00.2", False)
    line = group.done_line("1", "Ana <i>", 2)
    assert "00.2=t5" in line and "03.2=s1" in line and "00.3=o" in line
    text = f"{line}\n{group.line('ready', 'Bo', 4, os='Windows')}"
    made = group.board(group.gather(text)[0], "1")
    assert "Ana &lt;i&gt;" in made and 'title="03.2: solved"' in made and "Windows" in made
    assert re.search(r'title="00.2: tried"[^>]*></span>5', made)
    assert Tags(made).wrong == [] and group.board([], "1") == ""
    shown = progress.progress("1")
    assert {e.number for each in shown.tours.values() for e in each} == {
        *progress.exercises_of("1")
    }
    with pytest.raises(ValueError, match="no session is called '7'"):
        progress.progress("7")


def test_a_chat_becomes_a_page_that_runs_nothing_of_it(tmp_path, capsys):
    bad = "<script>alert(1)</script>"
    lines = [seed_line(by=bad), seed_line("Bo", 4, half=300), seed_line()[:-2] + "zz"]
    text = chat("max half <= 350", *lines, group.line("birth", "Cy", 2, step=150), bad)
    (tmp_path / "chat.txt").write_text(text, "utf-8")
    target = tmp_path / "out.html"
    assert (
        group.main([str(tmp_path / "chat.txt"), "--rule", "max half <= 350", "-o", str(target)])
        == 0
    )
    assert capsys.readouterr().out.endswith("3 lines, 1 damaged\n")
    page = target.read_text("utf-8")
    assert "confirmed: max half &lt;= 350" in page and page.count("<img") == 2 and bad not in page
    assert {each[:5] for each in book_checks.Page(page).loads} == {"data:"} and Tags(
        page
    ).wrong == []
    with pytest.raises(SystemExit):
        group.main([])


def test_a_machine_is_ready_or_it_is_said_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AOT_PROGRESS", str(tmp_path / "my" / "progress.json"))
    assert group.main(["--ready", "Ana", "--mine", "3"]) == 0
    ((row,), _) = group.gather(capsys.readouterr().out)
    assert (row.what, row.by, row.mine) == ("ready", "Ana", 3) and row.number("steps_per_s") > 0
    (tmp_path / "my" / "progress.json").write_text("{")
    monkeypatch.setattr(group, "NEEDED", "torch no_such_package")
    monkeypatch.setattr(group.platform, "python_version_tuple", lambda: ("3", "99", "1"))
    assert group.main(["--ready", "Ana"]) == 1
    said = capsys.readouterr().out
    for part in (
        "Python 3.99: install 3.10 to 3.13",
        "No module named 'no_such_package'",
        "is damaged",
    ):
        assert part in said


# ---- the experiments ----


def test_what_is_known_was_measured_by_these_experiments():
    known = group.known()
    assert [*known] == [*EXPERIMENTS] == [m.text for s in SESSIONS for m in s.marks("group")]
    for name, one in EXPERIMENTS.items():
        facts = {key: value for key, value in vars(one).items() if key != "run"}
        assert {key: known[name][key] for key in facts} == json.loads(json.dumps(facts))
        assert len(known[name]["runs"]) == len(one.settings) == group.MOST
        assert all({one.measure, one.across} - {""} <= run.keys() for run in known[name]["runs"])
        assert max(known[name]["seconds"]) < 60
    born = {run["seed"]: run["at"] for run in playground.measured()["seeds"]}
    assert [run["step"] for run in known["birth"]["runs"]] == [born[i] for i in range(1, 9)]


@pytest.mark.parametrize(("name", "at"), [("circuits", 5), ("coins", 4), ("scatter", 7)])
def test_an_experiment_gives_again_what_is_known(name, at):
    one, known = EXPERIMENTS[name], group.known()[name]["runs"][at]
    found = one.run(one.settings[at])
    for key, value in known.items():
        near = value if isinstance(value, str) else pytest.approx(value, abs=0.02)
        assert found[key] == near


def test_a_training_gives_numbers_after_a_few_steps(monkeypatch):
    import aot_helpers

    config = aot_helpers.TrainConfig
    few = lambda steps, *rest, **how: config(2, *rest, **how)  # noqa: E731
    monkeypatch.setattr(aot_helpers, "TrainConfig", few, raising=False)
    assert EXPERIMENTS["rates"].run(0.01)["loss"] < 8
    assert 0 < EXPERIMENTS["coins"].run("your own")["after_at"] < 1


# ---- the notebook ----


def test_the_notebook_runs_from_parameters_to_figure(capsys, monkeypatch):
    code = [source(cell) for cell in cells(GROUP, "code")]
    there = {}
    monkeypatch.setattr("aot_helpers.setup", lambda: None)
    for each in code[1:]:
        each = re.sub(r"^session: int = \d", "session: int = 2", each, flags=re.M)
        each = each.replace('"""\n\n"""', "LINE").replace('rule = ""', 'rule = "min lost >= 0.5"')
        there["LINE"] = "min lost >= 0.5\n" + capsys.readouterr().out if "LINE" in each else ""
        exec(each, there)
    said = capsys.readouterr().out
    assert "confirmed: min lost >= 0.5 (1 results)" in said and there["damaged"] == []
    plt.close("all")
