"""The program that answers are held against, and the folder that paths are of."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def in_the_projects_folder(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="session")
def program():
    """Runs the program gpuplan, which GPUPLAN_PROGRAM names or the PATH has."""
    file = os.environ.get("GPUPLAN_PROGRAM") or shutil.which("gpuplan")
    assert file, "GPUPLAN_PROGRAM names no program to compare with"

    def run(*words, fails=False):
        said = subprocess.run([file, *words], capture_output=True, text=True, cwd=ROOT)
        assert (said.returncode != 0) == fails, said.stderr
        return said

    return run
