"""Every number, word and table is the program's."""

import json
import shlex

import gpuplan
import pytest

LLAMA = "meta-llama/Llama-3.1-8B"

# What is asked of the program, and of Python.
QUESTIONS = [
    ("fits gpt2", lambda: gpuplan.fits("gpt2")),
    ("fits llama-3-8b --gpu h100-sxm --method qlora",
     lambda: gpuplan.fits("llama-3-8b", gpu="h100-sxm", method="qlora")),
    ("fits mistral-7b-v0.1 --gpu 4090,h100-sxm --gpus 4 --sequence-length 2048",
     lambda: gpuplan.fits("mistral-7b-v0.1", gpu=["4090", "h100-sxm"], gpus=4,
                          sequence_length=2048)),
    ("fits qwen2.5-7b --gpu 4090 --optimizer adamw-8bit --dora 32 --lora-targets all-linear",
     lambda: gpuplan.fits("qwen2.5-7b", gpu="4090", optimizer="adamw-8bit", dora=32,
                          lora_targets="all-linear")),
    ("fits deepseek-v3 --framework megatron-te --gpu h200_sxm --gpus 64",
     lambda: gpuplan.fits("deepseek-v3", framework="megatron-te", gpu={"h200_sxm": 64})),
    ("fits vit-large-patch16-224 --gpu h100-sxm",
     lambda: gpuplan.fits("vit-large-patch16-224", gpu="h100-sxm")),
    ("plan llama-3-8b --framework torchtitan --gpu h100-sxm --gpus 64 --batch 512",
     lambda: gpuplan.plan("llama-3-8b", framework="torchtitan", gpu={"h100-sxm": 64}, batch=512)),
    ("plan llama-3-70b --framework megatron-te --gpu h100-sxm --gpus 64 --batch 512 "
     "--sequence-length 8192 --precision bf16,fp8",
     lambda: gpuplan.plan("llama-3-70b", framework="megatron-te", gpu={"h100-sxm": 64}, batch=512,
                          sequence_length=8192, precision=["bf16", "fp8"])),
    ("plan llama-3-8b --framework torchtitan --gpu a100_sxm4_80gb,h100_sxm5_80gb --gpus 8,16 "
     "--batch 64 --tokens 1B --price 1.8,3 --goal money",
     lambda: gpuplan.plan("llama-3-8b", framework="torchtitan",
                          gpu={"a100_sxm4_80gb": 8, "h100_sxm5_80gb": 16}, batch=64, tokens="1B",
                          price=[1.8, 3], goal="money")),
    ("plan llama-3-8b --qlora 16 --gpu 4090 --gpus 2 --batch 16 --sequence-length 2048 "
     "--samples 50k --price 0.4",
     lambda: gpuplan.plan("llama-3-8b", qlora=16, gpu="4090", gpus=2, batch=16,
                          sequence_length=2048, samples="50k", price=0.4)),
    ("plan gpt3-6.7b --framework megatron-core --batch 32-64 --zero 1 --less-memory --plans 2",
     lambda: gpuplan.plan("gpt3-6.7b", framework="megatron-core", batch="32-64", zero=1,
                          less_memory=True, plans=2)),
    ("plan vit-large-patch16-224 --gpu 4090 --gpus 4 --batch 1024",
     lambda: gpuplan.plan("vit-large-patch16-224", gpu={"4090": 4}, batch=1024)),
    ("plan --from docs/tasks/axolotl.yml --gpu 4090 --gpus 2",
     lambda: gpuplan.plan(from_="docs/tasks/axolotl.yml", gpu={"4090": 2})),
    ("plan llama-3-8b --framework torchtitan --gpu h100-sxm --gpus 16 --batch 64 --tokens 1B "
     "--price 3 --how-many",
     lambda: gpuplan.how_many("llama-3-8b", framework="torchtitan", gpu={"h100-sxm": 16}, batch=64,
                              tokens=1e9, price=3)),
    ("memory gpt2 --micro-batch 8 --sequence-length 1024 --gpu rtx_4090",
     lambda: gpuplan.memory("gpt2", micro_batch=8, sequence_length=1024, gpu="rtx_4090")),
    ("memory llama-3.1-8b --data-parallel 8 --zero 3 --recompute full --gpu h100-sxm",
     lambda: gpuplan.memory(LLAMA, data_parallel=8, zero=3, recompute="full", gpu="h100-sxm")),
    ("memory llama-3-8b --framework megatron-te --pipeline-parallel 2 --accumulation 4 --all",
     lambda: gpuplan.memory("llama-3-8b", framework="megatron-te", pipeline_parallel=2,
                            accumulation=4, all=True)),
    ("memory gpt2 --num-hidden-layers 6 --no-tie-word-embeddings",
     lambda: gpuplan.memory("gpt2", num_hidden_layers=6, tie_word_embeddings=False)),
    ("memory --from docs/tasks/arguments.yaml docs/tasks/deepspeed.json",
     lambda: gpuplan.memory(from_=["docs/tasks/arguments.yaml", "docs/tasks/deepspeed.json"])),
    ("memory vit-base-patch16-224 --micro-batch 2",
     lambda: gpuplan.memory("vit-base-patch16-224", micro_batch=2)),
    ("time llama-3-8b --gpu h100-sxm --gpus 8 --zero 3 --micro-batch 2",
     lambda: gpuplan.time("llama-3-8b", gpu={"h100-sxm": 8}, zero=3, micro_batch=2)),
    ("time mixtral-8x7b --framework megatron-te --gpu h100-sxm --gpus 64 "
     "--expert-parallel 8 --batch 256 --tokens 1e10",
     lambda: gpuplan.time("mixtral-8x7b", framework="megatron-te", gpu={"h100-sxm": 64},
                          expert_parallel=8, batch=256, tokens=1e10)),
    ("calibrate docs/tasks/steps.csv", lambda: gpuplan.calibrate("docs/tasks/steps.csv")),
    ("time docs/tasks/nanotron_8b.json --framework megatron-core --gpu h100-sxm --gpus 64 "
     "--tensor-parallel 2 --zero 1 --accumulation 8 --timed-steps docs/tasks/steps.csv",
     lambda: gpuplan.time("docs/tasks/nanotron_8b.json", framework="megatron-core",
                          gpu={"h100-sxm": 64}, tensor_parallel=2, zero=1, accumulation=8,
                          timed_steps="docs/tasks/steps.csv")),
    ("check docs/tasks/axolotl.yml --gpu 4090",
     lambda: gpuplan.check("docs/tasks/axolotl.yml", gpu="4090")),
    ("check docs/tasks/axolotl.yml --gpu 2080ti,a100-sxm-80gb",
     lambda: gpuplan.check("docs/tasks/axolotl.yml", gpu=["2080ti", "a100-sxm-80gb"])),
    ("check docs/tasks/arguments.yaml docs/tasks/deepspeed.json --gpu h100-sxm --gpus 8",
     lambda: gpuplan.check("docs/tasks/arguments.yaml", "docs/tasks/deepspeed.json",
                           gpu={"h100-sxm": 8})),
    ("batch llama-3-8b --gpu h100-sxm --gpus 8 --zero 3 --batch 512 --on-gpus 4,16",
     lambda: gpuplan.batch("llama-3-8b", gpu={"h100-sxm": 8}, zero=3, batch=512, on_gpus=[4, 16])),
    ("batch gpt2 --gpu 4090 --micro-batch 64 --accumulation 2 --out-of-memory",
     lambda: gpuplan.batch("gpt2", gpu="4090", micro_batch=64, accumulation=2,
                           out_of_memory=True)),
    ("lr --tuned 64:3e-4 --batch 512 --optimizer adamw",
     lambda: gpuplan.lr(tuned=(64, 3e-4), batch=512, optimizer="adamw")),
    ("lr --tuned 256:0.1 --batch 512,1024 --optimizer sgd",
     lambda: gpuplan.lr(tuned="256:0.1", batch=[512, 1024], optimizer="sgd")),
    ("cost --step 2.5s --batch 512 --tokens 10B --sequence-length 4096 --gpu h100-sxm --gpus 64 "
     "--price 3 --carbon 400",
     lambda: gpuplan.cost(step="2.5s", batch=512, tokens="10B", sequence_length=4096,
                          gpu={"h100-sxm": 64}, price=3, carbon=400)),
    ("run --step 10s --batch 2048 --tokens 1e12 --sequence-length 4096 --gpu h100-sxm --gpus 1024 "
     "--price 3 --checkpoint 980GB --failures llama_3_405b --async --deadline 14 --energy "
     "--critical-batch 1000 --unique-tokens 250B",
     lambda: gpuplan.run(step="10s", batch=2048, tokens=1e12, sequence_length=4096,
                         gpu={"h100-sxm": 1024}, price=3, checkpoint="980GB", async_=True,
                         failures="llama_3_405b", deadline=14, energy=True, critical_batch=1000,
                         unique_tokens="250B")),
    ("run llama-3-8b --zero 3 --gpu h100-sxm --gpus 64 "
     "--phase tokens=100B,batch=512,sequence-length=8192 "
     "--phase tokens=5B,batch=128,sequence-length=32768",
     lambda: gpuplan.run("llama-3-8b", zero=3, gpu={"h100-sxm": 64},
                         phase=["tokens=100B,batch=512,sequence-length=8192",
                                "tokens=5B,batch=128,sequence-length=32768"])),
    ("model mixtral-8x7b", lambda: gpuplan.model("mixtral-8x7b")),
    ("model --hidden-size 1024 --num-hidden-layers 12 --num-attention-heads 16 "
     "--intermediate-size 4096 --vocab-size 32000",
     lambda: gpuplan.model(hidden_size=1024, num_hidden_layers=12, num_attention_heads=16,
                           intermediate_size=4096, vocab_size=32000)),
    ("models", lambda: gpuplan.models()),
    ("models mixtral", lambda: gpuplan.models("mixtral")),
    ("gpus", lambda: gpuplan.gpus()),
    ("gpus 4090 h100-sxm", lambda: gpuplan.gpus("4090", "h100-sxm")),
    ("frameworks llama-3-8b", lambda: gpuplan.frameworks("llama-3-8b")),
]  # fmt: skip


@pytest.mark.parametrize(("words", "ask"), QUESTIONS, ids=[one[0] for one in QUESTIONS])
def test_as_the_program_says(program, words, ask):
    said = program(*shlex.split(words), "--format", "json")
    answer = ask()
    there = json.loads(said.stdout)
    here = answer.to_dict()
    assert here["answer"] == there["answer"]
    assert (here["gpuplan"], here["command"]) == (there["gpuplan"], there["command"])
    assert [f"gpuplan: {line}" for line in answer.remarks] == said.stderr.splitlines()
    assert str(answer) == program(*shlex.split(words)).stdout.rstrip("\n")
    # The answer's own words ask the program the same.
    again = program(*answer.command_line[1:2], "--format=json", *answer.command_line[2:])
    assert json.loads(again.stdout) == here
    # Rows have what the table has.
    assert len(answer) == len(there["answer"])
    for row, cells in zip(answer, there["answer"], strict=True):
        assert list(row) == list(cells)
        for name, value in cells.items():
            known = (
                {"yes": True, "no": False}.get(value, value) if isinstance(value, str) else value
            )
            if name in ("fits", "sequence_parallel", "is_next"):
                value = known
            assert getattr(row, name) == (tuple(value) if isinstance(value, list) else value)
