"""What programs do with hostile files, outputs that fail, and when they are killed.

stress.py files GPUPLAN | outputs GPUPLAN | sweeps SWEEP_CPU

Each must end by itself, with a status of docs/command_line.md and a sentence where it is not 0, within 2 GB of
memory, unless it is built with sanitizers. No duration is asserted: what hangs is stopped after 60 s of processor
time, or 10 minutes. The slowest is printed.
"""

import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MOST_MEMORY = 2 << 30
MOST_SECONDS = 60
GPU = ["--gpu", "h100-sxm"]
failures = []
slowest = (0, "nothing")


def check(holds, *what):
    if not holds:
        failures.append(" ".join(str(part)[:600] for part in what))
        print("FAILED:", failures[-1], flush=True)


def limits_for(program):
    """Sanitizers reserve more than any limit."""

    def limit(memory=MOST_MEMORY):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    probe = subprocess.run([program, "--version"], preexec_fn=limit, capture_output=True)
    is_limited = probe.returncode == 0

    def preexec():
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if is_limited:
            limit()

    preexec.is_sanitized = not is_limited
    return preexec


def run(words, preexec, **streams):
    """Its status, standard output and standard error; counts its processor time."""
    global slowest
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    ran = subprocess.run(words, preexec_fn=preexec, timeout=600, **streams)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    slowest = max(slowest, (spent, " ".join(words[1:])))
    return ran


def is_sentence(said):
    """Text without what a terminal would obey."""
    try:
        return len(said) > 10 and all(one.isprintable() or one == "\n" for one in said.decode())
    except UnicodeDecodeError:
        return False


def failing_each_write(words, folder, preexec):
    """Runs it anew with one more of its calls that write failing, by strace; tells which, with its log's text."""
    log = folder / "strace.log"
    if preexec.is_sanitized:
        print("sanitizers write too, and end where they cannot, so no write fails")
        return
    if not shutil.which("strace") or run(["strace", "-o", str(log), "true"], None).returncode != 0:
        print("there is no strace, so no write fails")
        return
    for call in ("write", "writev", "pwrite64", "fsync", "rename", "ftruncate", "fchmod"):
        for at in range(1, 50):
            injected = f"inject={call}:error=ENOSPC:when={at}"
            ran = run(["strace", "-f", "-qq", "-o", str(log), "-e", injected, *words], preexec)
            if "INJECTED" not in log.read_text(errors="replace"):
                break
            # A message that could not be written is not there to be read.
            ran.is_told = "write(2" not in "".join(l for l in log.open(errors="replace") if "INJECTED" in l)
            yield f"{call} {at}", ran


# ---- files


def hostile_files(folder):
    """Name and text of each."""
    deep = 100_000
    size = 4 << 20  # the most that is read of a file of settings
    laugh = b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    for at in range(1, 30):
        laugh += b"a%d: &a%d [%s]\n" % (at, at, b",".join([b"*a%d" % (at - 1)] * 9))
    texts = {
        "deep.json": b"[" * deep + b"]" * deep,
        "deep_objects.json": b'{"a":' * deep + b"1" + b"}" * deep,
        "deep.yaml": b'{"a": [' * deep,
        "deep.toml": b"a = " + b"[" * deep,
        "latin.json": b'{"model_type": "caf\xe9", "zero_optimization": "\xff\xfe"}',
        "nul.json": b'{"model_type": "a\x00b", "zero_optimization": {}}',
        "nul.yaml": b"base_model: gpt2\x00\nsequence_len: 5\x00",
        "nuls": bytes(1000),
        "utf_16": '{"model_type": "llama"}'.encode("utf-16"),
        "terminal.yaml": b'base_model: "\\e]0;owned\\a"\nsequence_len: "\\e[31m"\n\x1b[31mkey: 1\n',
        "empty": b"",
        "random": random.Random(1).randbytes(20_000),
        "aliases.yaml": b"base_model: gpt2\nsequence_len: 512\n" + laugh,
        "itself.yaml": b"compute_environment: LOCAL_MACHINE\ndeepspeed_config: &all\n  zero_stage: *all\n",
        "long_list.json": b"[" + b"1," * (size // 2 - 2) + b"1]",
        "many_names.json": b"{" + b",".join(b'"k%d":[]' % at for at in range(250_000)) + b"}",
        "many_names_of_a_trainer.json": b'{"per_device_train_batch_size": 1, "learning_rate": 1, '
        + b",".join(b'"k%d":1' % at for at in range(250_000)) + b"}",
        "many_names.yaml": b"".join(b"k%d: 1\n" % at for at in range(100_000)),
        "many_tables.toml": b"".join(b"[model.t%d]\n" % at for at in range(200_000)),
        "trials.jsonl": b'{"micro_batch":1,"step_ms":2}\n' * (size // 30 - 10),
        "long_line.sh": b"torchrun pretrain_gpt.py " + b"--num-layers 2 " * (size // 15 - 10),
        "grows.sh": b"A=aa\n" + b"A=$A$A$A$A$A$A$A$A\n" * 100 + b"torchrun pretrain_gpt.py --num-layers $A",
        "loops.sh": b"for i in 1 2; do " * deep + b"torchrun pretrain_gpt.py",
        "sum.sh": b"torchrun pretrain_gpt.py --num-layers $((" + b"(" * deep + b"1" + b")" * deep + b"))",
        "opposites.sh": b"if [ " + b"! " * 1_000_000 + b"1 ]; then\ntorchrun pretrain_gpt.py\nfi",
        "nodes.txt": b"NodeName=a[1-999999999] Gres=gpu:h100:8\n" * 1000,
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    with open(folder / "long.json", "wb") as long:  # 100 MB
        long.write(b'{"traceEvents": "')
        for _ in range(100):
            long.write(b"x" * 1_000_000)
        long.write(b'"}')
    return ["/dev/zero", str(folder)] + sorted(str(one) for one in folder.iterdir())


def reading_commands():
    """Of each command that reads a file, its words with FILE."""
    yield ["sweep", "FILE"]
    yield ["check", "FILE", *GPU]
    yield ["model", "FILE"]
    yield ["frameworks", "FILE"]
    for command in ("fits", "memory", "time", "batch", "cost", "run", "plan"):
        yield [command, "FILE", *GPU]
        yield [command, "--from", "FILE", *GPU]
    yield ["memory", "gpt2", *GPU, "--measured", "FILE", "--svg", "/dev/null"]
    yield ["time", "gpt2", *GPU, "--measured", "FILE"]
    yield ["gpus", "h100-sxm", "--measured", "FILE"]
    for option in ("--prices", "--price-list", "--slurm-nodes"):
        yield ["cost", "gpt2", *GPU, option, "FILE"]


def read_files(program, folder):
    preexec = limits_for(program)
    files = hostile_files(folder)
    count = 0
    for command in reading_commands():
        # Those that share a reader share out the files, but for a device and a folder.
        is_alone = command[0] in ("sweep", "check", "model") or command[-1] == "FILE" or "--measured" in command
        some = files if is_alone else files[:2] + files[2 + count % 4 :: 4]
        for file in some:
            ran = run([program] + [file if word == "FILE" else word for word in command], preexec)
            count += 1
            check(ran.returncode in (0, 2), command, file, "ends with", ran.returncode, ran.stderr[:300])
            check(ran.returncode == 0 or is_sentence(ran.stderr), command, file, "says", ran.stderr[:300])
            check(ran.returncode == 0 or not ran.stdout, command, file, "prints", ran.stdout[:300])
    return f"{count} files read"


# ---- outputs


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def write_outputs(program, folder):
    preexec = limits_for(program)
    # Standard output
    for command in (["models"], ["fits", "gpt2", *GPU], ["--help"], ["plan", "--help"], ["gpus", "--format", "json"]):
        with open("/dev/full", "wb") as full:
            ran = run([program, *command], preexec, stdout=full)
        check(ran.returncode == 1 and (is_sentence(ran.stderr) or command == ["--help"]), command, "> /dev/full:", ran)
        ran = run(["sh", "-c", '"$@" >&-', "sh", program, *command], preexec)
        check(ran.returncode == 1 and (is_sentence(ran.stderr) or command == ["--help"]), command, ">&-:", ran)
        reader, writer = os.pipe()
        os.close(reader)
        ran = run([program, *command], preexec, stdout=writer)
        os.close(writer)
        check(ran.returncode in (1, -signal.SIGPIPE) and not ran.stderr, command, "| true:", ran)
    # Files. A disk of 64 KiB stands for a full one, where this may mount it, and nobody for who may not write.
    outputs = {
        "picture.svg": ["memory", "gpt2", *GPU, "--svg"],
        "snapshot.pickle": ["memory", "gpt2", *GPU, "--snapshot"],
        "trace.json": ["time", "gpt2", *GPU, "--trace"],
        "report.html": ["report", "gpt2", *GPU, "--gpus", "8", "--batch", "64", "-o"],
        "plan": ["plan", "gpt2", *GPU, "--gpus", "8", "--batch", "64", "--write", "hf", "--into"],
    }
    disk = folder / "disk"
    disk.mkdir()
    is_mounted = os.geteuid() == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], stderr=subprocess.DEVNULL
    ).returncode
    try:
        if is_mounted:
            (disk / "fills").write_bytes(bytes(48 << 10))
            for name, command in outputs.items():
                if name != "plan":
                    (disk / name).write_text("earlier")
            (disk / "rest").touch()
            with open(disk / "rest", "wb", buffering=0) as rest:
                try:
                    while True:
                        rest.write(bytes(4096))
                except OSError:
                    pass

            def files_there():
                return sorted(str(one) for one in disk.rglob("*") if one.is_file())

            listed = files_there()
            for name, command in outputs.items():
                ran = run([program, *command, str(disk / name)], preexec)
                check(ran.returncode == 1 and is_sentence(ran.stderr), command, "on a full disk:", ran)
                if name != "plan":
                    check((disk / name).read_text() == "earlier", name, "is not as it was")
                check(files_there() == listed, command, "leaves", files_there(), "of", listed)
    finally:
        if is_mounted:
            subprocess.run(["umount", disk], check=True)
    shut = folder / "shut"
    shut.mkdir(mode=0o555)
    folder.chmod(0o755)
    reachable = folder / "program"  # by nobody, who may see no home
    shutil.copy(program, reachable)
    tries = 0
    for name, command in outputs.items():
        words = [str(reachable), *command, str(shut / name)]
        ran = run(words, lambda: (as_nobody() if os.geteuid() == 0 else None, preexec()))
        check(ran.returncode == 1 and is_sentence(ran.stderr), command, "in a folder without rights:", ran)
        ran = run([program, *command, str(folder / "nowhere" / "at" / name)], preexec)
        check(name == "plan" or (ran.returncode == 1 and is_sentence(ran.stderr)), command, "in no folder:", ran)
        # Killed at any moment: as it was, or whole.
        target = folder / name
        done = run([program, *command, str(target)], preexec)
        check(done.returncode == 0 and target.exists(), command, done)
        if name == "plan":
            continue
        whole = target.read_bytes()
        lasts = time.monotonic()
        run([program, *command, str(target)], preexec)
        lasts = time.monotonic() - lasts
        for at in range(8):
            target.write_text("earlier")
            words = [program, *command, str(target)]
            killed = subprocess.Popen(words, stdout=subprocess.DEVNULL, preexec_fn=preexec)
            time.sleep(lasts * at / 7)
            killed.kill()
            killed.wait()
            check(target.read_bytes() in (b"earlier", whole), name, "is neither as it was nor whole")
        if name in ("picture.svg", "report.html"):
            target.write_text("earlier")
            for what, ran in failing_each_write([program, *command, str(target)], folder, preexec):
                left = target.read_bytes()
                is_whole = ran.returncode == 0 and left == whole and ran.stdout == done.stdout
                is_failure = ran.returncode == 1 and left in (b"earlier", whole)
                is_failure = is_failure and (not ran.is_told or is_sentence(ran.stderr))
                check(is_whole or is_failure, name, "where", what, "fails:", ran, left[:100])
                target.write_text("earlier")
                tries += 1
    full = "" if is_mounted else "; no disk could be mounted, so none was full"
    return f"outputs failed, {tries} of them by a call of the system" + full


# ---- sweeps


def measure_sweeps(program, folder):
    preexec = limits_for(program)
    batches = [1, 2, 3, 4, 6, 8, 12, 16]
    small = [program, "--hidden", "8", "--samples", "256", "--threads", "1", "--data", str(folder / "data")]
    slowly = [*small, "--micro-batch", ",".join(map(str, batches)), "--workers", "0,1", "--quiet"]
    words = [*slowly, "--seconds", "0.05"]
    wanted = sorted((batch, workers) for batch in batches for workers in (0, 1))
    random.seed(seed := int.from_bytes(os.urandom(4), "big"))
    print("seed", seed)

    def begin(words):
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=preexec)

    def rows_in(file):
        """Whole lines, as text, and their settings."""
        text = file.read_bytes() if file.exists() else b""
        lines = text[: text.rfind(b"\n") + 1].decode().splitlines()
        if file.suffix == ".csv":
            head, lines = lines[:1], lines[1:]
            names = head[0].split(",") if head else []
            cells = [dict(zip(names, line.split(","))) for line in lines]
        else:
            cells = [json.loads(line) for line in lines]
        return lines, [(int(cell["micro_batch"]), int(cell["workers"])) for cell in cells]

    check(run([*words, "--output", str(folder / "first.jsonl")], preexec).returncode == 0, "a sweep fails")
    kills = 0
    for name in ("killed.jsonl", "killed.csv"):
        file = folder / name
        earlier = []
        for tries in range(400):
            sweep = begin([*words, "--output", str(file), "--resume"])
            try:
                out, err = sweep.communicate(timeout=random.uniform(0.01, 0.3) * (1 + tries / 50))
            except subprocess.TimeoutExpired:
                sweep.send_signal(signal.SIGKILL)
                out, err = sweep.communicate()
            lines, settings = rows_in(file)
            check(lines[: len(earlier)] == earlier, name, "lost or changed", earlier, "has", lines)
            check(len(set(settings)) == len(settings), name, "has a setting twice:", settings)
            earlier = lines
            if sweep.returncode != -signal.SIGKILL:
                break
            kills += 1
        check(sweep.returncode == 0, name, "is not done:", sweep.returncode, err)
        check(sorted(settings) == wanted, name, "has", settings)

    # Two at once
    file = folder / "both.jsonl"
    both = [*slowly, "--seconds", "0.2", "--output", str(file), "--resume"]
    first = begin(both)
    while not (file.exists() and file.stat().st_size) and first.poll() is None:
        time.sleep(0.01)
    before = rows_in(file)[0]
    ran = run(both, preexec)
    check(ran.returncode == 1 and b"another sweep is writing it" in ran.stderr, "two at once:", ran)
    first.communicate()
    lines, settings = rows_in(file)
    check(first.returncode == 0 and lines[: len(before)] == before, "the first of two:", first.returncode)
    check(sorted(settings) == wanted, "the first of two has", settings)

    # Ctrl-C: what was measured is printed and kept, and half of it is gone on with.
    file = folder / "interrupted.jsonl"
    sweep = begin([*words, "--output", str(file)])
    while not rows_in(file)[0] and sweep.poll() is None:
        time.sleep(0.01)
    sweep.send_signal(signal.SIGINT)
    out, err = sweep.communicate()
    check(sweep.returncode == 130 and b"What was measured" in out, "Ctrl-C:", sweep.returncode, out, err)
    check(len(rows_in(file)[0]) >= 1, "Ctrl-C leaves", rows_in(file))

    # Standard streams that are closed: their numbers must not become those of the file.
    for closed in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
        file = folder / "streams.jsonl"
        short = [*small, "--micro-batch", "1,2", "--workers", "0", "--seconds", "0.05", "--output", str(file)]
        ran = run(["sh", "-c", f'"$@" {closed}', "sh", *short], preexec)
        check(ran.returncode == (1 if ">&-" in closed.split() else 0), closed, ran)
        try:
            check(rows_in(file)[1] == [(1, 0), (2, 0)], closed, "has", rows_in(file))
        except ValueError as error:
            check(False, closed, "spoils the file:", error, file.read_bytes()[:300])

    # What cannot be written is said, and what was measured is printed.
    ran = run([*words, "--output", "/dev/full"], preexec)
    check(ran.returncode == 1 and b"No space left" in ran.stderr and b"What was measured" in ran.stdout, "full:", ran)
    for file in ("/proc/none.jsonl", str(folder)):
        ran = run([*words, "--output", file], preexec)
        check(ran.returncode == 1 and is_sentence(ran.stderr), file, ran)
    for text in (b"\xff\xfe{}\n", b"\0" * 1000, b"[" * 100_000 + b"\n", b'{"micro_batch": 1}\n'):
        file = folder / "other.jsonl"
        file.write_bytes(text)
        ran = run([*words, "--output", str(file), "--resume"], preexec)
        check(ran.returncode == 1 and is_sentence(ran.stderr), "goes on with", text[:30], ran)
        check(file.read_bytes() == text, "what is no sweep's is changed:", text[:30])
    file = folder / "failing.jsonl"
    tries = 0
    few = [*small, "--micro-batch", "1,2,3", "--workers", "0", "--seconds", "0.01", "--output", str(file)]
    for what, ran in failing_each_write(few, folder, preexec):
        settings = rows_in(file)[1]
        is_whole = ran.returncode == 0 and sorted(settings) == [(1, 0), (2, 0), (3, 0)]
        is_failure = ran.returncode == 1 and len(set(settings)) == len(settings)
        is_failure = is_failure and (not ran.is_told or is_sentence(ran.stderr))
        check(is_whole or is_failure, "a sweep where", what, "fails:", ran, settings)
        file.unlink(missing_ok=True)
        tries += 1
    return f"killed {kills} times, and {tries} calls of the system failed"


def main():
    tries = {"files": read_files, "outputs": write_outputs, "sweeps": measure_sweeps}
    program = os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        print(tries[sys.argv[1]](program, pathlib.Path(name)))
    print(f"most processor time: {slowest[0]:.2f} s, {slowest[1]}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
