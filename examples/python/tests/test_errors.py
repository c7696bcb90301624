"""What cannot be is an error that says why."""

import pickle

import gpuplan
import pytest


@pytest.mark.parametrize(
    ("words", "ask"),
    [
        ("fits gtp2", lambda: gpuplan.fits("gtp2")),
        ("fits gpt2 --gpu a100", lambda: gpuplan.fits("gpt2", gpu="a100")),
        ("fits gpt2 --method loro", lambda: gpuplan.fits("gpt2", method="loro")),
        ("plan gpt2", lambda: gpuplan.plan("gpt2")),
        (
            "plan llama-3-8b --gpu 4090 --batch 8",
            lambda: gpuplan.plan("llama-3-8b", gpu="4090", batch=8),
        ),
        ("plan gpt2 --batch 8 --goal fun", lambda: gpuplan.plan("gpt2", batch=8, goal="fun")),
        ("memory gpt2 --micro-batch 0", lambda: gpuplan.memory("gpt2", micro_batch=0)),
        (
            "memory gpt2 --lora 8 --last-layers 2",
            lambda: gpuplan.memory("gpt2", lora=8, last_layers=2),
        ),
        ("check nowhere.yml", lambda: gpuplan.check("nowhere.yml")),
        (
            "batch llama-3-8b --gpu 4090 --batch 8",
            lambda: gpuplan.batch("llama-3-8b", gpu="4090", batch=8),
        ),
        ("lr --tuned 64:x --batch 8", lambda: gpuplan.lr(tuned="64:x", batch=8)),
        (
            "cost --step 2s --batch 8 --gpu 4090",
            lambda: gpuplan.cost(step="2s", batch=8, gpu="4090"),
        ),
        ("models nothing-of-the-kind", lambda: gpuplan.models("nothing-of-the-kind")),
    ],
)
def test_sentence_of_the_program(program, words, ask):
    said = program(*words.split(), fails=True)
    assert said.stdout == ""
    with pytest.raises(gpuplan.PlanError) as raised:
        ask()
    command = words.split()[0]
    # Where a word is wrong, the program adds how it is called.
    message = said.stderr.split("\ngpuplan " + command + " [")[0].split("\nUsage:")[0]
    assert f"gpuplan {command}: {raised.value}" == message.rstrip("\n")
    assert isinstance(raised.value, ValueError)


def test_facts_of_the_library():
    with pytest.raises(gpuplan.PlanError) as raised:
        gpuplan.memory("llama-3-8b", framework="megatron-core", tensor_parallel=6)
    error = raised.value
    assert (error.code, error.field, error.value) == ("does_not_divide", "tensor_parallel", 6)
    assert error.facts == {"tensor_parallel": 6, "num_attention_heads": 32}
    with pytest.raises(gpuplan.PlanError) as raised:
        gpuplan.plan("llama-3-8b", gpu="4090", batch=8)
    assert raised.value.code == "no_plan_in_memory"
    assert raised.value.facts["needed_MB"] > raised.value.facts["gpu_has_MB"] > 20000


def test_keyword_at_fault():
    with pytest.raises(gpuplan.PlanError, match="may mean 4 devices") as raised:
        gpuplan.fits("gpt2", gpu="a100")
    assert (raised.value.code, raised.value.field, raised.value.value) == (None, "gpu", "a100")
    with pytest.raises(gpuplan.PlanError) as raised:
        gpuplan.fits("no-such-model")
    assert (raised.value.field, raised.value.value) == ("model", "no-such-model")


def test_usual_gpu():
    with pytest.warns(UserWarning, match="'h100' is taken as 'h100_sxm5_80gb'"):
        short = gpuplan.fits("gpt2", gpu="h100", method="qlora")
    assert str(short) == str(gpuplan.fits("gpt2", gpu="h100_sxm5_80gb", method="qlora"))
    with pytest.warns(UserWarning):
        gpuplan.plan("gpt2", gpu={"H100": 8}, batch=64)


def test_must_fit():
    with pytest.raises(gpuplan.PlanError, match="not even 1 fits"):
        gpuplan.check("docs/tasks/axolotl.yml", gpu="2080ti", must_fit=True)
    assert gpuplan.check("docs/tasks/axolotl.yml", gpu="4090", must_fit=True).fits


def test_errors_can_be_sent_on():
    error = gpuplan.PlanError("no", "overflow", "layers", 3, {"layers": 3})
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "no"
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: gpuplan.plan("gpt2", sequence_lenght=8), "did you mean sequence_length"),
        (lambda: gpuplan.plan("gpt2", tensor_paralel=8), "did you mean tensor_parallel"),
        (lambda: gpuplan.fits("gpt2", format="json"), "fits has no keyword format"),
        (lambda: gpuplan.plan("gpt2", how_many=True), "how_many"),
        (lambda: gpuplan.plan("gpt2", write="torchrun", into="a"), r"keyword write; write\(\)"),
        (lambda: gpuplan.how_many("gpt2", into="a"), "keyword into; files are written by"),
        (lambda: gpuplan.memory("gpt2", snapshot="a"), r"keyword snapshot; snapshot\(\)"),
        (lambda: gpuplan.time("gpt2", trace="a"), r"keyword trace; trace\(\)"),
        (lambda: gpuplan.run("gpt2", svg="a"), r"keyword svg; svg\(\)"),
        (lambda: gpuplan.plan("gpt2", less_memory=1), "True or False is wanted"),
        (lambda: gpuplan.plan("gpt2", batch=True), "batch: N.* is wanted, not True"),
        (lambda: gpuplan.plan("gpt2", batch=object()), "not object"),
        (lambda: gpuplan.plan("gpt2", batch=[1, 2]), "one value is wanted"),
        (lambda: gpuplan.plan("gpt2", gpu={"4090": 2}, gpus=2), "gpus may not"),
    ],
)
def test_keywords(ask, says):
    with pytest.raises(TypeError, match=says):
        ask()
