import json
import math
import re
import shutil

import pytest
import torch

from aot_helpers.base.files import DATA
from aot_helpers.teaching import claims, ledger, rules
from aot_helpers.teaching.claims import check, claim, claims_table
from aot_helpers.teaching.ledger import Entry, read_ledger, results_folder, turned
from aot_helpers.teaching.rules import Claim, judge, load_claims


@pytest.mark.parametrize(
    ("value", "bounds", "passes"),
    [
        (1.0, {"equals": 1.0}, True),
        (1.05, {"equals": 1.0, "tol": 0.1}, True),
        (2, {"at_least": 1, "at_most": 3, "equals": 2}, True),
        (math.inf, {"at_least": 1}, True),
        (1.0 + 1e-9, {"equals": 1.0}, False),
        (0.8, {"equals": 1.0, "tol": 0.1}, False),
        (1.999, {"at_least": 2}, False),
        (2.001, {"at_most": 2}, False),
        (2, {"at_least": 1, "at_most": 3, "equals": 2.5}, False),
        (math.nan, {"equals": 0.0, "tol": 1.0}, False),
        (math.nan, {"at_least": -1e9}, False),
        (math.inf, {"at_most": 1e9}, False),
    ],
)
def test_a_value_within_its_bounds_passes_another_or_nan_fails(capsys, value, bounds, passes):
    if passes:
        check("loss", value, **bounds)
        assert capsys.readouterr().out.startswith(f"check passed: loss: {value:.4g} (expected ")
    else:
        with pytest.raises(AssertionError, match=r"check failed: loss: .*\(expected "):
            check("loss", value, **bounds)


@pytest.mark.parametrize("bounds", [{}, {"tol": 1.0}, {"at_most": math.inf}, {"equals": math.nan}])
def test_a_check_that_cannot_fail_is_refused(bounds):
    with pytest.raises(ValueError, match="check 'loss' could not fail"):
        check("loss", 1.0, **bounds)


# ---- what is declared ----

FINDING = {
    "statement": "Heads copy",
    "source": "S4",
    "kind": "finding",
    "holds_for": "two models",
    "declared": "after a pilot",
    "confirmed": "min >= 0.6",
    "refuted": "mean < 0.3",
    "control": "max <= 0.3",
    "unit": "of its attention",
}
RULES = ("confirmed", "refuted", "control")
OPEN = {k: v for k, v in FINDING.items() if k not in (*RULES, "unit", "declared")}
OPEN |= {"kind": "open", "why": "no head is hybrid"}


def without(*names, **changes):
    return {k: v for k, v in (FINDING | changes).items() if k not in names}


IDENTITY = without("control", "declared", kind="identity", statement="Heads | add")


def declare(folder, entries):
    """Write the files of the entries; the folder."""
    folder.mkdir(exist_ok=True)
    for notebook in {id[:2] for id in entries}:
        lines = []
        for id, entry in ((id, entry) for id, entry in entries.items() if id[:2] == notebook):
            lines += [f'["{id}"]', *(f"{k} = {json.dumps(v)}" for k, v in entry.items())]
        (folder / f"{notebook}.toml").write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_what_is_declared_comes_back_frozen(tmp_path):
    declare(tmp_path, {"07.1": FINDING, "07.10": OPEN, "08.1": FINDING})
    wanted = {"07.1": Claim("07.1", **FINDING), "07.10": Claim("07.10", **OPEN)}
    assert load_claims("07", tmp_path) == wanted
    assert list(load_claims(folder=tmp_path)) == ["07.1", "07.10", "08.1"]
    with pytest.raises(AttributeError):
        wanted["07.1"].unit = "nats"


def test_a_claim_stands_in_the_file_of_its_notebook(tmp_path):
    declare(tmp_path, {"07.1": FINDING})
    (tmp_path / "07.toml").rename(tmp_path / "08.toml")
    with pytest.raises(ValueError, match="claim 07.1 .* belongs in 07.toml"):
        load_claims("08", tmp_path)


@pytest.mark.parametrize("kind", ["identity", "construction"])
def test_only_a_finding_needs_a_control_and_a_time(tmp_path, kind):
    entry = without("control", "declared", kind=kind)
    assert load_claims("07", declare(tmp_path, {"07.1": entry}))["07.1"].control == ""


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (without("control"), "a claim of kind finding needs control"),
        (without("declared"), "needs declared"),
        (without("statement", "source"), "needs statement, source"),
        (
            without("kind"),
            "kind must be one of finding, identity, construction, open, withdrawn, moved, got ''",
        ),
        (without(kind="fact"), "got 'fact'"),
        (without(unit="u" * 31), "its unit has 31 characters; keep to 30"),
        (without(declared="later"), "must begin with before or after, got 'later'"),
        (without(live="attic"), "must be tour, evidence or 'tour, evidence', got 'attic'"),
        (without(confirmed="all >= 1"), "'all >= 1'"),
        (without(control="max <= inf"), "'max <= inf'"),
        (without(control="max <= 1, min > 0"), "'max <= 1, min > 0'"),
        (without(colour="red"), "'colour'"),
        (without(confirmed=0.5), "'confirmed'"),
        (OPEN | {"why": ""}, "needs why"),
        (OPEN | {"confirmed": "min > 0"}, "a claim of kind open has no rules"),
    ],
)
def test_a_claim_that_is_declared_wrongly_does_not_load(tmp_path, entry, said):
    with pytest.raises(ValueError, match="claim 07.1 of data/claims") as problem:
        load_claims(folder=declare(tmp_path, {"07.1": entry}))
    assert said in str(problem.value)


@pytest.mark.parametrize("id", ["7.1", "07", "07.0", "07.1a"])
def test_an_id_is_a_notebook_and_a_number(tmp_path, id):
    with pytest.raises(ValueError, match="its id must be NN.k"):
        load_claims(folder=declare(tmp_path, {id: FINDING}))


# ---- the verdict ----


@pytest.mark.parametrize(
    ("values", "control", "verdict"),
    [
        ([0.6, 0.9], [0.3], "confirmed"),
        ([0.59, 0.9], [0.3], "partly"),
        ([0.3, 0.3], [0.3], "partly"),
        ([0.2, 0.3], [0.3], "refuted"),
        (0.6, [0.1, 0.31], "control failed"),
        (0.6, {"a": 0.1, "b": 0.3}, "confirmed"),
        (0.6, {"a": 0.1, "b": 0.31}, "control failed"),
        (torch.tensor([[0.7], [0.8]], requires_grad=True), torch.tensor(0.1), "confirmed"),
        ([torch.tensor([0.7, 0.8]), [0.9]], (x for x in (0.1, 0.2)), "confirmed"),
        ([0.599996], [0.300004], "confirmed"),  # judged as it is kept: 4 digits
    ],
)
def test_the_rules_decide(values, control, verdict):
    assert judge(Claim("07.1", **FINDING), values, control) == verdict


@pytest.mark.parametrize(
    ("rule", "values", "holds"),
    [
        ("mean > 2 and median < 2", [1, 1, 7], True),
        ("mean > 2 and median < 1", [1, 1, 7], False),
        ("max <= 1e-5", [1e-6], True),
        ("min >= -0.5", [-0.4, 3], True),
        ("min two layers > 4 and max one <= 1", {"one": [1, 0], "two layers": 5}, True),
        ("min two layers > 4 and max <= 4", {"one": [1, 0], "two layers": 5}, False),
    ],
)
def test_rules_join_terms_and_pick_groups(rule, values, holds):
    entry = without("control", "declared", kind="identity", confirmed=rule, refuted="min > 99")
    verdict = judge(Claim("07.1", **entry), values)
    assert verdict == ("confirmed" if holds else "partly")


def test_an_open_claim_is_not_judged():
    assert judge(Claim("07.1", **OPEN), None) == "not testable here"


@pytest.mark.parametrize(
    ("changes", "values", "control", "said"),
    [
        ({}, [], [0.1], "finite numbers"),
        ({}, [0.7, math.nan], [0.1], "finite numbers"),
        ({}, ["0.7"], [0.1], "finite numbers"),
        ({}, {"a": 0.7, "b": []}, {"a": 0.1, "b": 0.1}, "finite numbers"),
        ({}, {"a": {0.7: 0.1}}, {"a": 0.1}, "finite numbers"),
        ({}, [0.7, True], 0.1, "finite numbers"),
        ({}, {1: 0.7, "1": 0.8}, {"1": 0.1}, "a name of its own"),
        ({}, None, 0.1, "needs values"),
        ({}, 0.7, None, "needs control values"),
        ({"kind": "identity", "control": ""}, 0.7, 0.1, "takes no control values"),
        ({}, {"a": 0.7}, {"b": 0.1}, "['a'], its control ['b']"),
        ({"control": "max b <= 0.3"}, {"a": 0.7}, {"a": 0.1}, "'b'"),
        (
            {"confirmed": "min a > 0.6", "refuted": "max a < 0.3"},
            {"a": 0.7, "b": 0.1},
            {"a": 0.1, "b": 0.1},
            "measures ['b'], of which no rule asks",
        ),
        ({"refuted": "max > 0"}, 0.7, 0.1, "confirmed and refuted at once"),
    ],
)
def test_what_cannot_be_judged_is_named(changes, values, control, said):
    with pytest.raises(ValueError, match="claim 07.1") as problem:
        judge(Claim("07.1", **FINDING | changes), values, control)
    assert said in str(problem.value)


def test_an_open_claim_takes_no_values():
    with pytest.raises(ValueError, match="claim 07.1 takes no values"):
        judge(Claim("07.1", **OPEN), 0.7)


# ---- the ledger ----


@pytest.fixture
def results(tmp_path, monkeypatch):
    of_07 = {"07.1": FINDING, "07.2": OPEN, "07.10": IDENTITY}
    declare(tmp_path / "claims", of_07 | {"08.1": IDENTITY})
    monkeypatch.setattr(rules, "DATA", tmp_path)
    monkeypatch.setattr(ledger, "ROOT", tmp_path)
    monkeypatch.setattr(ledger, "PUBLISHED", tmp_path / "published")
    monkeypatch.setenv("AOT_RESULTS", str(tmp_path / "runs"))
    return tmp_path / "runs" / "claims"


def test_a_claim_is_judged_printed_and_kept(results, capsys):
    claim("07.1", [0.6123456, 0.9], [0.1], seeds=torch.tensor(2), texts=1)
    said = "Heads copy (0.61 of its attention; control: 0.1)"
    assert capsys.readouterr().out == f"Claim 07.1 holds: {said}\n"
    kept = {"values": [0.6123, 0.9], "control": [0.1], "seeds": 2, "texts": 1}
    found = json.loads((results / "tour" / "07.json").read_text())
    assert found == {"07.1": {**kept, "verdict": "confirmed"}}


def test_an_entry_says_of_what_it_was_measured(results, capsys):
    what = {"model": "stories-2l", "step": 0, "length": 32, "seeds": 5, "heads": 1}
    claim("07.1", 0.7, 0.1, **what, floor="evidence")
    said = "stories-2l, step 0, length 32, 5 seeds, 1 head"
    assert capsys.readouterr().out.endswith(f"0.1 in the control; {said})\n")
    (entry,) = read_ledger(results / "evidence" / "07.json").values()
    weights = {"stories-2l@0": entry.weights["stories-2l@0"]}
    assert entry == Entry(values=[0.7], control=[0.1], verdict="confirmed", **what, weights=weights)
    assert (
        f"| 0.7 of its attention; 0.1 in the control; {said} |"
        in claims_table("07", "evidence").data
    )
    old = {"values": [1], "control": None, "seeds": None, "texts": 3, "heads": None}
    assert Entry(**old, verdict="partly").measured_on() == "3 texts"  # as older ledgers have it


@pytest.mark.parametrize(
    ("declared", "value", "control", "word"),
    [
        ("after a pilot", 0.7, 0.1, "holds"),
        ("after a pilot", 0.4, 0.1, "holds in part"),
        ("after a pilot", 0.2, 0.1, "fails"),
        ("after a pilot", 0.7, 0.9, "control failed"),
        ("before; the control after", 0.7, 0.1, "holds"),
        ("before the second seed", 0.7, 0.1, "confirmed"),
        ("before the second seed", 0.4, 0.1, "partly"),
        ("before the second seed", 0.2, 0.1, "refuted"),
    ],
)
def test_only_a_rule_that_was_set_before_confirms(
    tmp_path, results, capsys, declared, value, control, word
):
    declare(tmp_path / "claims", {"07.1": FINDING | {"declared": declared}})
    claim("07.1", [value, value], [0.01, control], says="heads copy {value}, others {control}")
    assert capsys.readouterr().out == f"Claim 07.1 {word}: heads copy {value}, others {control}\n"
    claim("07.1", value, control, floor="evidence", seeds=3)
    said = capsys.readouterr().out
    assert said.startswith(f"07.1 {word}: Heads copy (")
    assert said.endswith("; 3 seeds)\n")


def test_the_numbers_of_a_sentence_are_those_that_decide(tmp_path, results, capsys):
    rules = dict(confirmed="max one <= 900 and min two >= 2", control="mean two >= 1")
    changed = FINDING | rules | {"refuted": "min two > 99"}
    declare(tmp_path / "claims", {"07.1": changed, "07.2": OPEN})
    claim(
        "07.1", {"one": [3, 123.4], "two": 5}, {"one": 0, "two": [1, 2]}, says="{value}, {control}"
    )
    assert capsys.readouterr().out == "Claim 07.1 holds: 123, 1.5\n"
    claim("07.2")
    assert capsys.readouterr().out.endswith("not testable here: Heads copy (no head is hybrid)\n")


def test_a_median_that_a_rule_asks_for_comes_first(tmp_path, results, capsys):
    rules = dict(
        confirmed="median one >= 0.5 and min two >= 1", refuted="max one <= 0.1 and max two <= 0"
    )
    declare(tmp_path / "claims", {"07.1": {**FINDING, **rules}})
    values, control = {"one": [0.2, 0.6, 0.9], "two": [2, 3]}, {"one": 0, "two": 0.1}
    claim("07.1", values, control, floor="evidence", heads=1)
    said = "(one: median 0.6 (0.2 to 0.9), two: 2 to 3 of its attention; one: 0, two: 0.1 in the"
    assert said in capsys.readouterr().out


def test_each_floor_has_its_ledger_in_the_order_of_the_ids(results, capsys):
    claim("07.10", {"one": 1, "two": [2, 3]}, floor="evidence")
    assert capsys.readouterr().out.endswith("(one: 1, two: mean 2.5 (2 to 3) of its attention)\n")
    claim("07.2", floor="evidence")
    claim("07.1", 0.2, 0.1, floor="evidence", heads=1)
    claim("07.1", (x for x in (0.7, 0.8)), 0.1, floor="evidence", heads=1)
    claim("08.1", 1, floor="evidence")
    claim("07.10", 0.1)
    kept = json.loads((results / "evidence" / "07.json").read_text())
    assert [(id, entry["verdict"]) for id, entry in kept.items()] == [
        ("07.1", "confirmed"),
        ("07.2", "not testable here"),
        ("07.10", "confirmed"),
    ]
    assert kept["07.10"]["values"] == {"one": [1.0], "two": [2.0, 3.0]}
    assert kept["07.2"] == {"verdict": "not testable here"}
    assert json.loads((results / "tour" / "07.json").read_text())["07.10"]["verdict"] == "refuted"


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("07.3", 0.7, 0.1), {}, "'07.3' is not in data/claims/ (nearest: 07."),
        (("07.1", 0.7), {}, "needs control values"),
        (("07.1", 0.7, 0.1), {"floor": "evidence"}, "say how many seeds, texts or heads"),
        *(
            (("07.1", 0.7, 0.1), {name: n}, f"claim 07.1: {name} must be a whole number >= {least}")
            for name, least, n in [
                *(("seeds", 1, n) for n in (0, 0.5, True)),
                *(("texts", 1, "5"), ("step", 0, -1), ("length", 1, 0)),
            ]
        ),
        (("07.1", 0.7, 0.1), {"model": " "}, "model must be the name of a model, got ' '"),
        (("07.1", 0.7, 0.1), {"model": 2}, "model must be a string, got 2"),
        (("07.1", 0.7, 0.1), {"floor": "attic"}, "one of tour, evidence, got 'attic'"),
    ],
)
def test_a_bad_claim_is_refused_and_not_written(results, arguments, options, said):
    with pytest.raises(ValueError) as problem:
        claim(*arguments, **options)
    assert said in str(problem.value)
    assert not results.exists()


def test_a_tours_table_links_to_the_evidence_and_says_where_that_differs(results, tmp_path):
    folder = tmp_path / "notebooks" / "evidence"
    folder.mkdir(parents=True)
    (folder / "07_heads.ipynb").touch()
    claim("07.1", 0.4, 0.1, floor="evidence", seeds=5)
    claim("07.10", 1, floor="evidence")
    (results / "evidence").rename(tmp_path / "published_evidence")
    (tmp_path / "published").mkdir()
    (tmp_path / "published_evidence").rename(tmp_path / "published" / "evidence")
    for id, control in ("07.1", 0.1), ("07.2", None), ("07.10", None):
        claim(id, None if id == "07.2" else 0.7, control)
    table = claims_table("07").data.splitlines()
    assert table[0] == "| | claim | kind | measured | verdict |"
    assert table[2:] == [
        "| [07.1](evidence/07_heads.ipynb) | Heads copy | finding, rule set after "
        "| 0.7 of its attention; 0.1 in the control | holds; evidence: holds in part, 5 seeds |",
        "| [07.2](evidence/07_heads.ipynb) | Heads copy | open "
        "| no head is hybrid | not testable here |",
        "| [07.10](evidence/07_heads.ipynb) | Heads ∣ add | identity "
        "| 0.7 of its attention | holds |",
    ]
    assert claims.published("07.1").values == [0.4]
    claim("07.1", 0.7, 0.1, floor="evidence", texts=3)
    assert "| holds |" in claims_table("07").data.splitlines()[2]  # of this run, not published
    assert claims_table("07", floor="evidence").data.endswith(
        "| 07.1 | Heads copy | finding, rule set after "
        "| 0.7 of its attention; 0.1 in the control; 3 texts | holds |"
    )


def test_a_table_without_claims_says_what_to_run(results):
    with pytest.raises(ValueError, match="notebook 07 has no claims in .*07.json: run its cells"):
        claims_table("07")


def test_results_go_below_runs_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("AOT_RESULTS", raising=False)
    assert results_folder().parts[-2:] == ("runs", "results")
    assert (results_folder().parent.parent / "aot_helpers").is_dir()


def test_what_is_no_longer_declared_leaves_the_ledger(results):
    claim("07.10", 1)
    path = results / "tour" / "07.json"
    path.write_text(path.read_text().replace("07.10", "heads add"))
    claim("07.2")
    assert list(json.loads(path.read_text())) == ["07.2"]


def test_a_damaged_ledger_is_named_and_kept(results):
    claim("07.10", 1)
    path = results / "tour" / "07.json"
    path.write_text(path.read_text()[:-20])
    content = path.read_text()
    with pytest.raises(ValueError, match="07.json is damaged .*restore it"):
        claim("07.10", 2)
    assert path.read_text() == content


def test_a_results_folder_that_cannot_be_written_is_named(results, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AOT_RESULTS", str(tmp_path / "file"))
    with pytest.raises(OSError, match="cannot write in .*file/claims.*choose another folder"):
        claim("07.10", 1)


# ---- a run against what is published ----


@pytest.fixture
def two(results, tmp_path, capsys):
    """The ledgers of a run, and the same ones published."""
    claim("07.1", [0.7, 0.8], [0.1, 0.2])
    claim("07.2")
    claim("07.10", [0.95, 1])
    claim("07.1", [0.7, 0.9], 0.1, floor="evidence", seeds=2)
    shutil.copytree(results, tmp_path / "published")
    capsys.readouterr()
    return results, tmp_path / "published"


def test_a_run_like_the_published_one_is_quiet(two, capsys):
    assert turned(*two) == []
    claim("07.1", [0.65, 0.89], [0.05, 0.29])  # 0.7 is 0.1 above its bound, 0.2 below its own
    claim("07.10", [0.6, 7])  # an identity's rule is its tolerance
    assert turned(*two) == []
    assert ledger.main(["--published", str(two[1])]) == 0


@pytest.mark.parametrize(
    ("id", "values", "control", "floor", "named"),
    [
        ("07.1", [0.5, 0.8], [0.1, 0.2], "tour", ["confirmed of mean 0.75", "partly of mean 0.65"]),
        ("07.1", [0.7, 0.8], 0.4, "tour", ["confirmed", "control failed", "0.4"]),
        ("07.1", [0.7, 0.95], 0.1, "tour", ["values were 0.7 to 0.8", "now 0.7 to 0.95", "0.1"]),
        ("07.1", [0.7, 0.8], -0.1, "tour", ["control were 0.1 to 0.2", "now -0.1"]),
        ("07.1", {"a": 0.7}, {"a": 0.1}, "tour", ["had the groups ['']", "now ['a']"]),
        ("07.1", [0.7, 1.1], 0.1, "evidence", ["values were 0.7 to 0.9", "now 0.7 to 1.1"]),
        ("07.10", 0.1, None, "tour", ["confirmed of mean 0.975", "refuted of 0.1"]),
        ("08.1", 0.9, None, "tour", ["finds it confirmed", "not published"]),
    ],
)
def test_what_comes_out_otherwise_is_named(two, capsys, id, values, control, floor, named):
    claim(id, values, control, floor=floor, seeds=2)
    line = turned(*two)[0]
    assert line.startswith(f"claim {id} of the {floor}: ")
    assert all(part in line for part in named), line
    assert turned(*two, notebooks=["09"]) == []
    other = {"tour": "evidence", "evidence": "tour"}[floor]
    assert turned(*two, floors=[other]) == []
    assert ledger.main(["--published", str(two[1])]) == 1
    assert line in capsys.readouterr().out


def test_a_claim_that_a_run_no_longer_makes_is_named(two):
    (two[0] / "evidence" / "07.json").unlink()
    (line,) = turned(*two)
    assert line.startswith("claim 07.1 of the evidence: published as confirmed, but this run")


def test_of_a_model_trained_in_the_notebook_only_the_verdict_counts(two, tmp_path):
    live = FINDING | {"live": "tour"}
    declare(tmp_path / "claims", {"07.1": live, "07.2": OPEN, "07.10": IDENTITY})
    claim("07.1", [0.61, 5], 0.1)
    assert turned(*two) == []
    claim("07.1", [0.59, 5], 0.1)
    claim("07.1", [0.61, 5], 0.1, floor="evidence", seeds=2)
    assert [line.split(":")[0] for line in turned(*two)] == [
        "claim 07.1 of the tour",
        "claim 07.1 of the evidence",
    ]


def test_the_margin_is_the_way_to_the_nearest_bound():
    terms = Claim("07.1", **FINDING | {"confirmed": "min a >= 0.5 and max <= 2"}).terms("confirmed")
    numbers = {"a": [0.6, 1.0], "b": [1.5, 1.9]}
    assert ledger.margin(terms, numbers, "a") == pytest.approx(
        0.1
    )  # the max of all is 0.1 off, too
    assert ledger.margin(terms[1:], numbers, "a") == pytest.approx(0.1)
    assert ledger.margin(terms[:1], numbers, "b") == math.inf  # nobody asks of b
    assert ledger.margin(terms[:1], {"a": [0.5, 40]}, "a") == 0.4  # no less than a hundredth


# ---- what the published notebooks have measured ----

NOTEBOOKS = DATA.parent / "notebooks"
EVIDENCE = {path.name[:2]: path for path in sorted((NOTEBOOKS / "evidence").glob("*.ipynb"))}
TOURS = {path.name[:2]: path for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))}
DECLARED = load_claims()
EVERY_EVIDENCE = pytest.mark.parametrize("number", EVIDENCE)
EVERY_TOUR = pytest.mark.parametrize("number", TOURS)
WORDS = {word: verdict for verdict, word in claims.AFTER.items()}
VERDICTS = ("confirmed", "partly", "refuted", "control failed", *rules.UNJUDGED.values())
LINE = re.compile(rf"^(?:Claim )?(\d\d\.\d+) ({'|'.join([*VERDICTS, *WORDS])}): ", re.M)


def kept(number, floor="evidence"):
    return read_ledger(ledger.ledger_path(ledger.PUBLISHED, number, floor))


def called_and_printed(path):
    """The ids of the claims that a notebook's code makes, and {id: verdict} of what it printed."""
    cells = [c for c in json.loads(path.read_text("utf-8"))["cells"] if c["cell_type"] == "code"]
    outputs = [out for cell in cells for out in cell["outputs"]]
    code = "\n".join("".join(cell["source"]) for cell in cells)
    printed = LINE.findall("".join("".join(out.get("text", "")) for out in outputs))
    called = re.findall(r'\b(?:aot\.)?claim\(\s*"(.*?)"', code)
    for ids in called, [id for id, _ in printed]:
        assert len(ids) == len(set(ids)), f"{path.stem} makes a claim twice: {sorted(ids)}"
    return set(called), {id: WORDS.get(word, word) for id, word in printed}


# Rules that were set before their notebook is measured, so that they can be seen to be older.
WAITING = set()


def test_every_claim_has_an_evidence_notebook_or_waits_for_it():
    assert {id[:2] for id in DECLARED} == set(EVIDENCE) | WAITING
    assert not WAITING & set(EVIDENCE)


@EVERY_EVIDENCE
def test_evidence_measures_what_is_declared_and_nothing_else(number):
    declared = {id for id in DECLARED if id.startswith(number)}
    unasked = {id for id in declared if DECLARED[id].kind in ("open", "moved")}
    assert declared - unasked <= set(kept(number)) <= declared


@EVERY_EVIDENCE
def test_evidence_prints_what_its_ledger_holds(number):
    called, printed = called_and_printed(EVIDENCE[number])
    assert printed == {id: entry.verdict for id, entry in kept(number).items()}
    assert called == set(printed)


@EVERY_EVIDENCE
@pytest.mark.parametrize("floor", ["evidence", "tour"])
def test_every_verdict_follows_from_the_values_that_are_kept(number, floor):
    for id, entry in kept(number, floor).items():
        assert judge(DECLARED[id], entry.values, entry.control) == entry.verdict, id


@EVERY_EVIDENCE
def test_every_finding_turns_when_its_control_is_measured_instead(number):
    """A rule that the control's values pass as well says nothing about what was measured.

    Asked of each finding's verdict as a whole: that it changes, in whichever direction, not that
    each rule and each group would. Of identities and constructions it is not asked, nor of a claim
    whose control failed: that says by itself that its rules do not part the two.
    """
    for id, entry in kept(number).items():
        if DECLARED[id].kind == "finding" and entry.verdict != "control failed":
            instead = judge(DECLARED[id], entry.control, entry.control)
            assert instead != entry.verdict, f"{id} would be {instead} of its control as well"
            assert entry.seeds or entry.texts or entry.heads, id


# What a score of a segment or of a text in the context is called where a claim names its unit.
OF_A_SEGMENT = re.compile(
    r"copy accuracy|copied|copying|induction score|in-context|attention|previous-token score"
    r"|stripe|of the gain|of the score|of the queries$|score lost"
)
# Prompts of many lengths, in words of their own, in place of segments of one length: 20 asks facts
# and windows, 24 sentences with names.
OF_PROMPTS = {"20.24", "20.25", "24.7", "24.8", "24.9", "24.10", "24.24"}


@EVERY_EVIDENCE
def test_every_score_of_a_segment_says_how_long_it_is(number):
    scored = {id for id in kept(number) if OF_A_SEGMENT.search(DECLARED[id].unit)}
    scored = {id for id in scored if DECLARED[id].kind == "finding"} - OF_PROMPTS
    without = {id for id in scored if kept(number)[id].length is None}
    assert not without, f"{sorted(without)}: give claim(…, length=…), the segment's in tokens"


@EVERY_TOUR
def test_a_tour_and_its_evidence_agree(number):
    """The verdicts are the same, or the tour, with less of something, says the evidence's."""
    tour, evidence = kept(number, "tour"), kept(number)
    called, printed = called_and_printed(TOURS[number])
    assert printed == {id: entry.verdict for id, entry in tour.items()}
    assert called == set(tour) <= set(evidence)
    for id, entry in tour.items():
        if entry.verdict != evidence[id].verdict:
            assert (entry.seeds or 1) < (evidence[id].seeds or 1), id


@EVERY_TOUR
def test_a_tours_table_says_where_its_evidence_judges_otherwise(number):
    cells = json.loads(TOURS[number].read_text("utf-8"))["cells"]
    outputs = [out.get("data", {}) for cell in cells for out in cell.get("outputs", [])]
    lines = "".join("".join(data.get("text/markdown", "")) for data in outputs).splitlines()
    rows = {found[1]: line for line in lines if (found := re.match(r"\| \[(\d\d\.\d+)\]", line))}
    assert set(rows) == set(kept(number, "tour"))
    for id, entry in kept(number, "tour").items():
        other = kept(number)[id].verdict
        said = [f"evidence: {word}" for word in (other, claims.AFTER.get(other, other))]
        assert other == entry.verdict or any(each in rows[id] for each in said), rows[id]


@EVERY_EVIDENCE
def test_the_evidence_ends_with_the_table_of_its_claims(number):
    """What a recap calls confirmed was judged by the rules: the table is printed, not typed."""
    text = EVIDENCE[number].read_text("utf-8")
    assert "claims_table(" in text, f"{EVIDENCE[number].stem}: its recap lacks claims_table"


@EVERY_TOUR
def test_the_evidence_of_a_tours_claims_is_where_the_link_leads(number):
    assert set(kept(number, "tour")) <= called_and_printed(EVIDENCE[number])[0]
