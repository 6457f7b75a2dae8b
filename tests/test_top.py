"""What `import aot_helpers` gives, and what it costs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import aot_helpers

ROOT = Path(__file__).resolve().parent.parent


def test_every_name_is_there_and_stands_for_what_is_so_called():
    for name in dir(aot_helpers):
        assert getattr(aot_helpers, name).__name__.split(".")[-1] == name
    assert aot_helpers.plots.__name__ == "aot_helpers.showing.plots"


def test_a_name_that_is_not_there_is_named_with_near_ones():
    with pytest.raises(AttributeError, match="no 'hed_scores'; did you mean head_scores"):
        _ = aot_helpers.hed_scores


@pytest.mark.parametrize(
    ("first", "there", "expected"),
    [("", None, "PASSIVE"), ("", "ACTIVE", "ACTIVE"), ("import torch; ", None, "None")],
)
def test_threads_that_wait_sleep_unless_told_otherwise(first, there, expected):
    """Set before PyTorch reads it, or not at all."""
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    environment |= {"OMP_WAIT_POLICY": there} if there else {}
    code = f"{first}import aot_helpers, os; print(os.environ.get('OMP_WAIT_POLICY'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.parametrize("threads", [0, -1, "2", 2.5, True, 10**9])
def test_a_number_of_threads_that_is_none_is_refused(threads):
    with pytest.raises(ValueError, match=f"threads must be a whole number .*got {threads!r}"):
        aot_helpers.setup(threads=threads)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("command", [["progress"], ["ledger", "10.5"]])
def test_commands_print_in_any_encoding(command, encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", f"aot_helpers.teaching.{command[0]}", *command[1:]]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True)
    assert done.returncode == 0 and done.stdout, done.stderr
