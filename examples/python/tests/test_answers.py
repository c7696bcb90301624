"""What can be made of an answer."""

import copy
import json
import pickle
import re
import subprocess
import sys
import typing
import xml.etree.ElementTree as ElementTree

import gpuplan
import jsonschema
import pytest
from conftest import ROOT


def plans():
    return gpuplan.plan(
        "llama-3-8b", framework="torchtitan", gpu={"h100-sxm": 8}, batch=64, tokens=1e9, price=3
    )


SCHEMA = json.loads((ROOT / "docs/answer.schema.json").read_text())
ANSWERS = {
    "fits": lambda: gpuplan.fits("gpt2", gpu="4090"),
    "plan": plans,
    "how_many": lambda: gpuplan.how_many("gpt2", gpu={"4090": 2}, batch=8, samples=1000, price=1),
    "memory": lambda: gpuplan.memory("gpt2", gpu="4090"),
    "how_many, not all": lambda: gpuplan.how_many(
        "llama-3-8b", gpu={"4090": 8}, batch=8, samples=1000
    ),
    "time": lambda: gpuplan.time("gpt2", gpu="4090"),
    "time, explain": lambda: gpuplan.time("gpt2", gpu="4090", explain=True),
    "time, measured": lambda: gpuplan.time(
        "gpt2", gpus=1, measured="examples/python/tests/trace.json"
    ),
    "calibrate": lambda: gpuplan.calibrate("docs/tasks/steps.csv"),
    "check": lambda: gpuplan.check("docs/tasks/axolotl.yml", gpu="4090"),
    "batch": lambda: gpuplan.batch("gpt2", gpu="4090", batch=64),
    "lr": lambda: gpuplan.lr(tuned=(64, 3e-4), batch=512),
    "lr, warm_up": lambda: gpuplan.lr(tuned=(64, 3e-4), batch=512, warm_up=100, samples=1e6),
    "lr, schedule": lambda: gpuplan.lr(tuned=(64, 3e-4), batch=512, schedule="wsd", steps=100),
    "cost": lambda: gpuplan.cost(step=2, batch=8, samples=100, gpu="4090"),
    "cost, checkpoints": lambda: gpuplan.cost(
        "gpt2",
        batch=8,
        samples=100,
        gpu="4090",
        price=1,
        storage="1TB",
        stall="10s",
        between_failures="10d",
    ),
    "run": lambda: gpuplan.run(step=2, batch=8, samples=1e6, gpu="4090", failures="none"),
    "model": lambda: gpuplan.model("gpt2"),
    "models": gpuplan.models,
    "gpus": gpuplan.gpus,
    "gpus, systems": lambda: gpuplan.gpus(systems=True),
    "gpus, measured": lambda: gpuplan.gpus(measured="benchmarks/results/h100_sxm5_80gb.json"),
    "frameworks": gpuplan.frameworks,
    "frameworks, model": lambda: gpuplan.frameworks("gpt2"),
}
ROWS = {
    row
    for row in vars(gpuplan).values()
    if isinstance(row, type) and issubclass(row, gpuplan.Row) and row is not gpuplan.Row
}


def rows_of(answer):
    """Its rows, and those that are made of them."""
    made = [*answer]
    for name in ("moments", "pieces", "verdicts"):
        made += getattr(answer, name, ())
    return made


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer(name):
    answer = ANSWERS[name]()
    for again in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
        assert again == answer
        assert str(again) == str(answer) == repr(answer)
        assert again[0] == answer[0]
        assert again.remarks == answer.remarks
        assert hash(again) == hash(answer)
    assert json.loads(answer.to_json()) == answer.to_dict()
    jsonschema.validate(answer.to_dict(), SCHEMA)
    frame = answer.to_pandas()
    assert len(frame) == len(answer)
    assert list(frame.columns) == list(answer[0])
    assert "| --- |" in answer.to_markdown() or "|---" in answer.to_markdown()
    with pytest.raises(AttributeError):
        answer[0].gpu = "none"
    assert set(answer[0].to_dict()) <= set(dir(answer[0]))
    # All fields are said to be there, all that are said are there, and of the type that is said.
    for row in rows_of(answer):
        types = typing.get_type_hints(type(row))
        assert set(row) == set(types)
        for field, value in row.items():
            kinds = typing.get_args(types[field]) or (types[field],)
            if isinstance(row, gpuplan.Count) and gpuplan._rows.Missing in kinds:
                kinds += (type(None),)
            kinds += (int,) if float in kinds else ()
            assert type(value) in kinds, (name, field, value)
    # In a notebook: well-formed, with the same numbers of tables' rows, and no rule for all of it.
    html = answer._repr_html_()
    styles = "".join(re.findall(r"<style>(.*?)</style>", html))
    assert ".gpuplan{" in styles
    assert not re.search(r"[{}](body|table|th|td|\*)[,{]", styles)
    tree = ElementTree.fromstring(re.sub(r"<(br|wbr)>", r"<\1/>", html))
    assert tree.findall(".//table") or tree.findall(".//{http://www.w3.org/2000/svg}svg")


def test_every_kind_of_row():
    """Each is seen by the test of answers."""
    assert {type(row) for ask in ANSWERS.values() for row in rows_of(ask())} == ROWS


def test_plan():
    made = plans()
    assert made.best is made[0]
    assert made.best.plan == "best"
    assert made.best.usd == pytest.approx(made.best.gpu_hours * 3)
    parts = [one for one in made.best if one.endswith("_s") and one not in ("step_s",)]
    step = sum(made.best[one] for one in parts if not one.startswith(("step", "tokens")))
    assert step == pytest.approx(made.best.step_s)


def test_files_to_run(program, tmp_path):
    made = plans()
    hub = "meta-llama/Llama-3.1-8B"
    rates = {"learning_rate": 3e-4, "schedule": "wsd", "least_learning_rate": 3e-5}
    files = made.files("torchtitan", "torchrun", hub=hub, script="train.py", **rates)
    folder = made.write(
        "torchtitan",
        "torchrun",
        into=tmp_path / "python",
        hub=hub,
        script="train.py",
        **rates,
    )
    words = ["--framework=torchtitan", "--gpu=h100-sxm", "--gpus=8", "--batch=64", "--tokens=1e9"]
    words += ["--write=torchtitan,torchrun", f"--hub={hub}"]
    words += ["--learning-rate=3e-4", "--schedule=wsd", "--least-learning-rate=3e-5"]
    program("plan", "llama-3-8b", *words, "--script=train.py", "--into", str(tmp_path / "program"))
    theirs = {
        str(one.relative_to(tmp_path / "program")): one.read_text()
        for one in (tmp_path / "program").rglob("*")
        if one.is_file()
    }
    assert theirs == files
    assert theirs == {name: (folder / name).read_text() for name in files}
    assert len(files) > 2
    assert "c.lr_scheduler.decay_ratio = 0." in files["torchtitan/gpuplan_torchtitan.py"]
    with pytest.raises(gpuplan.PlanError, match="--write megatron: .*this plan is taken by"):
        made.files("megatron")
    with pytest.raises(TypeError, match="the name of a tool"):
        made.write(into=tmp_path)


def test_report(program, tmp_path):
    page = plans().report(tmp_path / "plan.html").read_text()
    words = ["--framework=torchtitan", "--gpu=h100-sxm", "--gpus=8", "--batch=64", "--tokens=1e9"]
    program("report", "llama-3-8b", *words, "--price=3", "-o", str(tmp_path / "theirs.html"))
    assert page == (tmp_path / "theirs.html").read_text()
    assert plans()._repr_html_().count("<svg") >= 3


def test_memory(program, tmp_path):
    step = gpuplan.memory("gpt2", micro_batch=8, sequence_length=1024, gpu="rtx_4090")
    assert step.peak_GiB == max(one.total_GiB for one in step.moments)
    assert step.moments[0].activations_GiB < 1e-5
    assert sum(one.bytes_B for one in step.pieces) <= step.peak_GiB * 2**30
    assert step.pieces[0].bytes_B == 8 * 1024 * 50257 * 4
    with open("docs/memory_of_gpt2.svg") as shown:
        assert step.svg() == shown.read()
    words = ["memory", "gpt2", "--micro-batch=8", "--sequence-length=1024", "--gpu=rtx_4090"]
    program(*words, "--snapshot", str(tmp_path / "theirs"), "--trace", str(tmp_path / "trace"))
    assert step.snapshot(tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert step.trace(tmp_path / "ours").read_bytes() == (tmp_path / "trace").read_bytes()
    with pytest.raises(KeyError, match="the tables are step, peak, pieces"):
        step.table("moments")


def test_check():
    checked = gpuplan.check("docs/tasks/axolotl.yml", gpu=["4090", "2080ti"])
    assert [one.fits for one in checked.verdicts] == [True, False]
    assert not checked.fits
    assert checked.verdicts[0].step_s is not None
    assert checked.verdicts[1].step_s is None
    assert checked.training["effective_batch"] == 8
    assert [one.key for one in checked.about("assumed")] == ["gpus"]


def test_remarks():
    step = gpuplan.memory(from_="docs/tasks/axolotl.yml")
    assert step.remarks
    assert all(one.startswith("--from: ") for one in step.remarks)


def test_answers_do_not_change_with_files(tmp_path):
    file = tmp_path / "axolotl.yml"
    with open("docs/tasks/axolotl.yml") as given:
        file.write_text(given.read())
    before = gpuplan.check(file, gpu="4090")
    said = str(before)
    file.write_text(file.read_text().replace("micro_batch_size: 2", "micro_batch_size: 1"))
    assert str(before) == said != str(gpuplan.check(file, gpu="4090"))


def test_without_pandas():
    script = (
        "import sys; sys.modules['pandas'] = None\n"
        "import gpuplan\n"
        "print(len(gpuplan.gpus('4090')))\n"
        "try: gpuplan.gpus().to_pandas()\n"
        "except ImportError: print('none')\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout == "1\nnone\n"
    assert said.stderr == ""
