"""Submits what is written for Slurm to a slurmctld on this machine, and compares what it found.

Each script is asked for by `sbatch --test-only`, on nodes that are nowhere, and held in the queue, where
`scontrol show job` says what was understood. Two nodes that are here then run one, with a torchrun that says
its words.
"""

import contextlib
import getpass
import math
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from written_cases import compare, each_case, skip

for program in ("slurmctld", "slurmd", "sbatch"):
    if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
        skip(f"Slurm is not there: no {program}")
os.environ["PATH"] += ":/usr/sbin"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def conf(folder):
    host = socket.gethostname()
    here = "".join(
        f"NodeName=here{at} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=1 Gres=gpu:H100:2\n"
        for at in (1, 2)
    )
    return f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={getpass.getuser()}
SlurmctldPort={free_port()}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdSpoolDir={folder}/spool.%n
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdParameters=config_overrides
SelectType=select/cons_tres
GresTypes=gpu
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SlurmctldParameters=cloud_dns
SuspendTime=100000
SuspendProgram=/bin/true
ResumeProgram=/bin/true
NodeName=far[1-600] CPUs=64 RealMemory=1000 Gres=gpu:H100:16,gpu:A100-80GB:16,gpu:L4:16 State=CLOUD
{here}PartitionName=far Nodes=far[1-600] Default=YES MaxTime=INFINITE
PartitionName=here Nodes=here[1-2] MaxTime=INFINITE
"""


def said_by(*words):
    ran = subprocess.run(words, capture_output=True, text=True, timeout=100)
    if ran.returncode:
        sys.exit(f"{' '.join(words)}: {ran.stderr}")
    return ran.stdout


def run_until(seconds, is_true):
    for _ in range(seconds * 10):
        if is_true():
            return
        time.sleep(0.1)
    sys.exit(f"Slurm is not ready after {seconds} s")


@contextlib.contextmanager
def cluster():
    """A slurmctld and two nodes in a folder of their own, ended at the end."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as at_end:
        place = pathlib.Path(folder)
        os.environ["SLURM_CONF"] = f"{folder}/slurm.conf"
        (place / "slurm.conf").write_text(conf(folder))
        (place / "gres.conf").write_text(f"NodeName=here[1-2] Name=gpu Type=H100 File={folder}/gpu[0-1]\n")
        for name in ("state", "spool.here1", "spool.here2"):
            (place / name).mkdir()
        for name in ("gpu0", "gpu1"):
            (place / name).touch()
        log = at_end.enter_context((place / "log").open("w"))

        def start(*words):
            started = subprocess.Popen(words, stdout=log, stderr=log)
            at_end.callback(started.wait)
            at_end.callback(started.terminate)

        start("slurmctld", "-D")
        run_until(60, lambda: subprocess.run(["scontrol", "ping"], stdout=log).returncode == 0)
        for node in ("here1", "here2"):
            start("slurmd", "-D", "-N", node)
        yield place


def fields_of(job):
    return dict(re.findall(r"(\S+?)=(\S*)", said_by("scontrol", "-o", "show", "job", job)))


def seconds_of(limit):
    days, clock = limit.split("-") if "-" in limit else ("0", limit)
    hours, minutes, seconds = map(int, clock.split(":"))
    return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds


def run_one(place, script):
    """What torchrun is started with, on two nodes with two GPUs each."""
    for pattern, new in [
        (r"--nodes=\d+", "--nodes=2"),
        (r"gpu:\S*\n", "gpu:H100:2\n"),
        (r"--nnodes \d+", "--nnodes 2"),
        (r"--nproc-per-node \d+", "--nproc-per-node 2"),
    ]:
        script, count = re.subn(pattern, new, script)
        assert count == 1, pattern
    (place / "train.sbatch").write_text(script)
    torchrun = place / "torchrun"
    torchrun.write_text('#!/bin/sh\necho "$SLURM_NODEID $SLURM_NTASKS $*"\n')
    torchrun.chmod(0o755)
    os.environ["PATH"] = f"{place}:{os.environ['PATH']}"
    run_until(60, lambda: said_by("sinfo", "-h", "-p", "here", "-t", "idle", "-o", "%D").strip() == "2")
    out = place / "out"
    job = said_by("sbatch", "--parsable", "-p", "here", "-W", "-o", str(out), str(place / "train.sbatch")).strip()
    ran = sorted(out.read_text().splitlines())
    for node, line in enumerate(ran):
        words = f"{node} 2 --nnodes 2 --nproc-per-node 2 --rdzv-id {job} --rdzv-backend c10d --rdzv-endpoint here1:29500 "
        assert line.startswith(words), line
    assert len(ran) == 2, ran
    return ran[0][len(words) :]


with cluster() as place:
    cases = 0
    for folder, expected in each_case("slurm"):
        launch = expected["launch"]
        script = str(folder / "train.sbatch")
        said_by("sbatch", "--test-only", script)
        fields = fields_of(said_by("sbatch", "--parsable", "-H", script).strip())
        asked = fields["TresPerNode"].split(":")
        found = {"nodes": int(fields["NumNodes"].split("-")[0]), "gpus_per_node": int(asked[-1])}
        found["gpus"] = found["nodes"] * found["gpus_per_node"]
        compare(folder, expected, found)
        assert asked[:2] == ["gres", "gpu"] and asked[2:-1] == ([launch["gpu"]] if launch.get("gpu") else []), folder
        assert int(fields["NumTasks"]) == found["nodes"], folder
        assert fields["JobName"] == launch["name"], folder
        if launch["wall_time"]:
            # in whole minutes
            assert seconds_of(fields["TimeLimit"]) == 60 * math.ceil(launch["wall_time"] / 60), folder
        else:
            assert fields["TimeLimit"] == "UNLIMITED", folder
        cases += 1
        last = (folder / "train.sbatch").read_text()
    assert run_one(place, last) == launch["command"]
    print(cases, "job scripts were taken by", said_by("sbatch", "--version").strip(), "and the last of them was run")
