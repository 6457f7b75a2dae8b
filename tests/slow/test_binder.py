"""Binder's scripts in an environment of their own, without the network."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(os.name == "nt", reason="Binder's scripts need bash")
def test_binder_post_build_and_start(tmp_path):
    """In a fresh environment that sees the installed packages, as on Binder, with no network."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("pyproject.toml", "requirements-tours.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "aot_helpers", copy / "aot_helpers", ignore=ignore)
    shutil.copytree(ROOT / "binder", copy / "binder")
    command = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")]
    subprocess.run(command, check=True)
    # The packages of this environment, pip and setuptools among them, come after the new one's own.
    new_packages = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (new_packages / "installed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it the wrong way round: 0 means no isolation
        "PIP_NO_INDEX": "1",
    }

    def call(*command, cwd=copy):
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call(str(copy / "binder" / "postBuild"))
    # Asked from another folder, so that only the installation can answer.
    where = call("python", "-c", "import aot_helpers; print(aot_helpers.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(copy)
    start = str(copy / "binder" / "start")
    assert call(start, "sh", "-c", "echo $OMP_NUM_THREADS") == "1\n"
