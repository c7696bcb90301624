"""Asks the program and its WebAssembly the same questions: same_as_program.py WASM PROGRAM. Both outputs, the exit
status and all files must be equal, byte for byte. WebAssembly runs under wasmtime.
"""

import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import wasmtime

HERE = pathlib.Path(__file__).parent
TASKS = HERE / "../../../docs/tasks"
# What a machine has alone: its GPUs.
OF_MACHINES = ("--gpu auto",)


def prepare(folder):
    folder.mkdir()
    for file in TASKS.iterdir():
        shutil.copy(file, folder)
    (folder / "folder").mkdir()
    (folder / "folder/config.json").write_text(
        '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632,'
        ' "num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4, "vocab_size": 32000,'
        ' "max_position_embeddings": 2048, "tie_word_embeddings": false, "hidden_act": "silu"}'
    )
    (folder / "broken.yml").write_text("base_model: [never closed\n")


def left_in(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def by_program(program, words, folder):
    ran = subprocess.run([program, *words], cwd=folder, capture_output=True)
    return ran.returncode, ran.stdout, ran.stderr


def by_wasm(engine, module, words, folder, beside):
    out, err = beside / "out", beside / "err"
    wasi = wasmtime.WasiConfig()
    wasi.argv = ["gpuplan", *words]
    wasi.preopen_dir(str(folder), "/")
    wasi.stdout_file = str(out)
    wasi.stderr_file = str(err)
    store = wasmtime.Store(engine)
    store.set_wasi(wasi)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    status = 0
    try:
        linker.instantiate(store, module).exports(store)["_start"](store)
    except wasmtime.ExitTrap as end:
        status = end.code
    except wasmtime.Trap as trap:
        status = str(trap)
    del store
    return status, out.read_bytes(), err.read_bytes()


def main():
    wasm, program = sys.argv[1:]
    config = wasmtime.Config()
    config.wasm_exceptions = True
    engine = wasmtime.Engine(config)
    started = time.monotonic()
    module = wasmtime.Module.from_file(engine, wasm)
    print(f"compiled in {time.monotonic() - started:.1f} s")
    questions = [line for line in (HERE / "questions.txt").read_text().splitlines() if line]
    different = 0
    slowest = {}
    for question in questions:
        words = shlex.split(question)
        with tempfile.TemporaryDirectory() as name:
            beside = pathlib.Path(name)
            answers = []
            for by in ("program", "wasm"):
                folder = beside / by
                prepare(folder)
                started = time.monotonic()
                if by == "program":
                    answer = by_program(pathlib.Path(program).resolve(), words, folder)
                else:
                    answer = by_wasm(engine, module, words, folder, beside)
                    slowest[question] = time.monotonic() - started
                answers.append((*answer, left_in(folder)))
        for what, first, second in zip(("status", "stdout", "stderr", "files"), *answers):
            if first == second or (what == "stderr" and any(one in question for one in OF_MACHINES)):
                continue
            different += 1
            if what == "files":
                names = [n for n in first.keys() | second.keys() if first.get(n) != second.get(n)]
                first, second = [{n: a.get(n) for n in names} for a in (first, second)]
            print(f"gpuplan {question}: {what} differ\n  program {first!r:.600}\n  wasm    {second!r:.600}")
    question = max(slowest, key=slowest.get)
    print(f"{len(questions)} questions, {different} differences; the slowest: {slowest[question]:.2f} s, {question}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
