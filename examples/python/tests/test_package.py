"""What is installed: all that it needs, its types, its examples."""

import doctest
import importlib.metadata
import inspect
import re
import subprocess
import sys
from pathlib import Path

import gpuplan
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
INSTALLED = Path(gpuplan.__file__).parent


def test_version():
    parts = re.findall(
        r"VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (ROOT / "include/gpuplan/version.hpp").read_text()
    )
    assert gpuplan.__version__ == ".".join(parts) == importlib.metadata.version("gpuplan")


def test_needs_nothing_else():
    assert HERE.parent not in INSTALLED.parents  # the tests are of what is installed
    (module,) = INSTALLED.glob("_core*.so")
    needed = subprocess.run(["ldd", module], capture_output=True, text=True, check=True).stdout
    for line in needed.splitlines():
        name = line.split()[0]
        own = str(INSTALLED) in line
        assert own or re.match(
            r"linux-vdso|/lib64/ld-|lib(stdc\+\+|m|gcc_s|c|dl|pthread|rt)\.so", name
        ), line
    abi3 = sys.version_info >= (3, 12)
    assert module.name.endswith(".abi3.so") == abi3


def test_notices():
    """The licence, and those of what is compiled in or lies beside."""
    files = importlib.metadata.files("gpuplan")
    notices = {one.name: one.read_text() for one in files if "licenses" in one.parts}
    assert set(notices) == {"LICENSE", "THIRD_PARTY.txt"}
    assert "Boost Software License" in notices["LICENSE"]
    beside = [one.name for one in INSTALLED.glob("lib*.so*")]
    named = notices["THIRD_PARTY.txt"].replace("toml++", "tomlplusplus")
    for name in [re.sub(r"^lib|\.so.*", "", one) for one in beside] + ["nanobind", "CLI11"]:
        assert name in named


def examples():
    """The docstrings' examples, and those of the page."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = {"gpuplan": gpuplan}
    tests = []
    for module in (gpuplan, sys.modules["gpuplan._answers"], sys.modules["gpuplan._errors"]):
        tests += [one for one in finder.find(module, globs=names) if one.examples]
    parser = doctest.DocTestParser()
    page = (ROOT / "docs/python.md").read_text()
    # One example goes on where the last one ended.
    blocks = "\n\n".join(re.findall(r"```pycon\n(.*?)```", page, flags=re.DOTALL))
    tests.append(parser.get_doctest(blocks, {}, "docs/python.md", "docs/python.md", 0))
    return tests


@pytest.mark.parametrize("example", examples(), ids=lambda one: one.name)
def test_example(example, monkeypatch, tmp_path):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(example).failed == 0


def test_all_functions_have_examples():
    shown = {one.name for one in examples()}
    for name in gpuplan.__all__:
        if inspect.isfunction(getattr(gpuplan, name)):
            assert f"gpuplan.{name}" in shown


def test_help_and_completion():
    for name in ("plan", "fits", "memory"):
        keywords = inspect.signature(getattr(gpuplan, name)).parameters
        assert {"gpu", "framework", "sequence_length", "from_"} <= set(keywords)
        assert "hidden_size" not in keywords
    assert "how_many" not in inspect.signature(gpuplan.plan).parameters
    said = subprocess.run(
        [sys.executable, "-c", "import gpuplan; help(gpuplan)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for word in ("PlanError", "sequence_length (N): Tokens of a sequence", "fits(", "to_pandas"):
        assert word in said


def test_types(tmp_path):
    """The types are those of a strict program, and a wrong keyword or field is found."""
    for file in ("py.typed", "_core.pyi", "_keywords.pyi"):
        assert (INSTALLED / file).exists()
    typed = HERE / "typed.py"
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import gpuplan\n"
        'gpuplan.plan("gpt2", batch=8, sequence_lenght=1)\n'
        'gpuplan.plan("gpt2", batch=8, recompute="sometimes")\n'
        'gpuplan.plan("gpt2", batch=8).best.layot\n'
        'gpuplan.plan("gpt2", batch=8).best.step_s.upper()\n'
        "gpuplan.fits(7)\n"
        "gpuplan.frameworks()[0].engines\n"
        "gpuplan.gpus(systems=True)[0].name\n"
        'gpuplan.how_many("gpt2", batch=8)[0].step_s + 1\n'
        'gpuplan.plan("gpt2", batch=8, write="torchrun")\n'
        'gpuplan.time("gpt2", explain=True)[0].step_s\n'
    )
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache"]
    said = subprocess.run([*check, typed], capture_output=True, text=True, cwd=tmp_path)
    assert said.stdout.startswith("Success"), said.stdout + said.stderr
    said = subprocess.run([*check, wrong], capture_output=True, text=True, cwd=tmp_path)
    lines = {int(one) for one in re.findall(r"wrong\.py:(\d+): error", said.stdout)}
    assert lines == set(range(2, 12)), said.stdout


def test_notebook():
    import nbclient
    import nbformat

    notebook = nbformat.read(HERE.parent / "gpuplan.ipynb", as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": ROOT}}
    ).execute()
    cells = [one for one in notebook.cells if one.cell_type == "code"]
    assert len(cells) > 5
    shown = [
        out.data for one in cells for out in one.outputs if out.output_type == "execute_result"
    ]
    html = [one["text/html"] for one in shown if "text/html" in one]
    assert sum("<table" in one for one in html) >= 3
    assert sum("<svg" in one for one in html) >= 2
