"""Loads what is written for SkyPilot as `sky launch` does, and compares what it found."""

import os
import pathlib
import re
import tempfile

from written_cases import compare, each_case, skip, words_of_script

home = tempfile.TemporaryDirectory()  # SkyPilot keeps its catalogues there, of which it would download these
os.environ["HOME"] = home.name
try:
    from sky.skylet.constants import CATALOG_SCHEMA_VERSION
    from sky.utils.gpu_names import CANONICAL_GPU_NAMES

    import importlib.util

    fetchers = pathlib.Path(importlib.util.find_spec("sky").origin).parent / "catalog" / "data_fetchers"
    common = pathlib.Path(home.name) / ".sky" / "catalogs" / CATALOG_SCHEMA_VERSION / "common"
    common.mkdir(parents=True)
    (common / "metadata.csv").write_text("GPU,MemoryGB,Manufacturer\n")
    (common / "accelerators.csv").write_text(
        "AcceleratorName,Clouds\n" + "".join(f"{name},Kubernetes\n" for name in CANONICAL_GPU_NAMES)
    )
    import sky
except Exception as missing:
    skip(f"SkyPilot is not there: {missing}")

# The names that SkyPilot's own programs put into clouds' catalogues
in_catalogues = set(CANONICAL_GPU_NAMES)
for fetcher in fetchers.glob("*.py"):
    in_catalogues |= set(re.findall(r"'([A-Z0-9][A-Za-z0-9-]+)'", fetcher.read_text()))

cases = 0
for folder, expected in each_case("skypilot"):
    launch = expected["launch"]
    task = sky.Task.from_yaml(str(folder / "sky.yaml"))
    assert len(task.resources) == 1, folder
    resources = next(iter(task.resources))
    ((gpu, count),) = resources.accelerators.items()
    found = {"nodes": task.num_nodes, "gpus_per_node": count, "gpus": task.num_nodes * count}
    compare(folder, expected, found)
    if launch["gpu"]:
        assert gpu == launch["gpu"], folder
    assert gpu in in_catalogues, f"{folder}: {gpu} is in no catalogue, for {launch['device']}"
    assert resources.extract_docker_image() == (launch["image"] or None), folder
    assert task.name == launch["name"], folder
    environment = {
        "SKYPILOT_NUM_NODES": "3",
        "SKYPILOT_NODE_RANK": "2",
        "SKYPILOT_NUM_GPUS_PER_NODE": "4",
        "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2\n10.0.0.3",
    }
    torchrun = words_of_script(task.run, environment)
    assert torchrun[:9] == "--nnodes 3 --node-rank 2 --nproc-per-node 4 --master-addr 10.0.0.1 --master-port".split()
    assert " ".join(torchrun[10:]) == launch["command"], folder
    cases += 1
print(cases, "tasks were read by SkyPilot", sky.__version__)
