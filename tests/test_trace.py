import hashlib

import pytest

from aot_helpers.base.files import DATA
from aot_helpers.teaching import ledger, trace
from aot_helpers.teaching.claims import claim
from aot_helpers.teaching.ledger import Entry, ledger_path, read_ledger
from aot_helpers.teaching.rules import Claim, load_claims

RUNS = ["stories-2l@400 L1H3", "stories-2l-seed1 L1H0"]
FINDING = {
    "statement": "Heads copy", "source": "S4", "holds_for": "two models", "declared": "after",
    "unit": "of its attention", "kind": "finding",
    "confirmed": "min >= 0.6", "refuted": "mean < 0.3", "control": "max <= 0.3",
}  # fmt: skip


def test_a_hash_is_that_of_the_file_itself():
    file = DATA / "checkpoints" / "stories-2l" / "step-00400.safetensors"
    assert hashlib.sha256(file.read_bytes()).hexdigest().startswith(trace.hash_of("stories-2l@400"))
    gpt2 = DATA / "pretrained" / "docstrings-gpt2" / "model.safetensors"
    assert hashlib.sha256(gpt2.read_bytes()).hexdigest().startswith(trace.hash_of(gpt2.parent.name))
    torus = DATA / "torus" / "heads3-dim3.safetensors"
    assert hashlib.sha256(torus.read_bytes()).hexdigest().startswith(trace.hash_of(torus.stem))
    assert trace.hash_of("trained-here") is None
    for name in trace.OUTSIDE:  # not here: the hash is in what was measured of them
        assert len(trace.hash_of(name)) == trace.DIGITS
    with pytest.raises(ValueError, match="stories-2l has no weights of step 401; there are"):
        trace.hash_of("stories-2l@401")


def test_a_run_without_weights_leads_to_its_log():
    assert trace.log_of("gpt2-init-seed0") == "training/gpt2-init-seed0.json"
    assert trace.log_of("ladder/2-layers+d_mlp-128/none/seed-0") == "autopsy.json"
    assert trace.log_of("sweep/20-4-128") == "sweep.json" and trace.log_of("chance") is None
    assert "gpt2-init-seed2 not kept; its log is data/results/training/" in trace.trace("09.14")


def test_the_last_step_is_meant_where_none_is_said():
    last = max((DATA / "checkpoints" / "stories-2l").glob("step-*"))
    assert hashlib.sha256(last.read_bytes()).hexdigest().startswith(trace.hash_of("stories-2l"))


@pytest.mark.parametrize(
    ("names", "numbers", "found"),
    [
        (RUNS, {"": [1.0, 2.0]}, RUNS),
        (RUNS, {"a": [1.0, 2.0], "b": [3.0, 4.0]}, {"a": RUNS, "b": RUNS}),
        ({"a": ["x"], "b": RUNS}, {"b": [1, 2], "a": [1]}, {"a": ["x"], "b": RUNS}),
        (None, {"": [1.0]}, None),
    ],
)
def test_each_number_has_a_name(names, numbers, found):
    assert trace.named("claim", names, numbers) == found


@pytest.mark.parametrize(
    ("names", "numbers"), [(RUNS, {"": [1.0]}), ({"a": RUNS}, {"": [1, 2]}), (RUNS, {})]
)
def test_names_that_are_not_as_many_are_refused(names, numbers):
    if numbers:
        with pytest.raises(ValueError, match="must name .* numbers"):
            trace.named("claim", names, numbers)
    else:
        assert trace.named("claim", names, numbers) == {}


@pytest.fixture
def declared(tmp_path, monkeypatch):
    """A finding 98.1 and a withdrawn 98.2 in a folder of their own; results go to tmp_path."""
    lines = [f'{name} = "{value}"' for name, value in FINDING.items()]
    gone = ['["98.2"]', *lines[:3], 'kind = "withdrawn"', 'why = "its control had no weights"']
    folder = tmp_path / "claims"
    folder.mkdir()
    (folder / "98.toml").write_text("\n".join(['["98.1"]', *lines, *gone]) + "\n")
    loaded = load_claims(folder=folder)
    for module in ("claims", "trace"):
        monkeypatch.setattr(f"aot_helpers.teaching.{module}.load_claims", lambda *_: loaded)
    monkeypatch.setenv("AOT_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(ledger, "PUBLISHED", tmp_path / "results" / "claims")
    return loaded


def kept(id):
    return read_ledger(ledger_path(ledger.results_folder() / "claims", id[:2], "evidence"))[id]


def test_a_claim_leads_to_its_weights_and_its_numbers_to_their_runs(declared):
    claim("98.1", [0.7, 0.8], [0.1, 0.2], of=RUNS, length=[8, 22], seeds=2, floor="evidence")
    entry = kept("98.1")
    assert entry.of == entry.control_of == RUNS and entry.length == [8, 22]
    assert entry.weights == {run: trace.hash_of(run) for run in map(trace.run_of, RUNS)}
    said = trace.trace("98.1")
    assert f"{RUNS[0]} 0.7, {RUNS[1]} 0.8" in said and f"{RUNS[0]} 0.1" in said
    assert "min >= 0.6" in said and entry.weights["stories-2l@400"] in said
    with pytest.raises(ValueError, match="claim '98.7' is not in data/claims"):
        trace.trace("98.7")


def test_a_control_of_another_size_has_names_of_its_own_or_none(declared):
    claim("98.1", [0.7, 0.8], [0.1], of=RUNS, seeds=2, floor="evidence")
    assert kept("98.1").control_of is None
    claim("98.1", [0.7], [0.1], of=RUNS[:1], control_of=["chance"], seeds=2, floor="evidence")
    assert kept("98.1").control_of == ["chance"] and list(kept("98.1").weights) == [RUNS[0][:14]]


def test_a_withdrawn_claim_stays_in_the_ledger_and_takes_no_values(declared, capsys):
    claim("98.2", floor="evidence")
    assert kept("98.2").verdict == "withdrawn" and "had no weights" in capsys.readouterr().out
    with pytest.raises(ValueError, match="takes no values"):
        claim("98.2", [1.0], floor="evidence")


def test_counts_add_up_over_the_published_ledger():
    found = trace.counts()
    verdicts = [
        n for name, n in found.items() if name.startswith("findings ") and "named" not in name
    ]
    assert sum(verdicts) == found["findings"]
    assert found["rules set before the values"] + found["rules set after"] == found["findings"]
    assert found["claims"] == sum(one.kind != "moved" for one in load_claims().values())


@pytest.mark.parametrize(
    ("values", "control", "is_thin"),
    [
        ([0.7, 0.9], [0.1], False),
        ([0.62, 0.9], [0.1], True),
        ([0.9], [0.28], True),
        ([0.5], [0], False),
    ],
)
def test_a_thin_margin_is_one_whose_bound_a_tenth_away_turns_the_verdict(values, control, is_thin):
    entry = Entry(
        values=values, control=control, verdict="confirmed" if min(values) > 0.6 else "partly"
    )
    assert trace.thin(Claim("98.1", **FINDING), entry) == is_thin
