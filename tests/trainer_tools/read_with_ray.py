"""Runs what is written for Ray Train up to its ScalingConfig, and compares what it found."""

import runpy

from written_cases import compare, each_case, skip

try:
    import ray
    from ray.train.torch import TorchTrainer
except Exception as missing:
    skip(f"Ray Train, or torch, is not there: {missing}")

cases = 0
for folder, expected in each_case("ray"):
    module = runpy.run_path(str(folder / "ray_train.py"))
    TorchTrainer(module["train"], scaling_config=module["scaling"])
    scaling = module["scaling"]
    bundles = scaling.as_placement_group_factory().bundles
    workers = [bundle for bundle in bundles if bundle.get("GPU")]
    assert all(bundle["GPU"] == 1 for bundle in workers), folder
    compare(folder, expected, {"gpus": len(workers)})
    if "nodes" in expected and "gpus_per_node" in expected:
        assert scaling.num_workers == expected["nodes"] * expected["gpus_per_node"], folder
    assert (scaling.accelerator_type or "") == expected["launch"].get("gpu", ""), folder
    cases += 1
print(cases, "modules were run with Ray", ray.__version__)
