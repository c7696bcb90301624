"""Loads what is written for Kubeflow Trainer into its own models, and compares what they found."""

from written_cases import compare, each_case, skip

try:
    import yaml
    from kubeflow_trainer_api import models
except Exception as missing:
    skip(f"kubeflow-trainer-api is not there: {missing}")

cases = 0
for folder, expected in each_case("kubeflow"):
    written = yaml.safe_load((folder / "trainjob.yaml").read_text())
    trainer = models.TrainerV1alpha1TrainJob.from_dict(written).spec.trainer
    assert trainer.command[0] == "torchrun", folder
    found = {"nodes": trainer.num_nodes, "gpus_per_node": trainer.num_proc_per_node}
    found["gpus"] = trainer.num_nodes * trainer.num_proc_per_node
    compare(folder, expected, found)
    cases += 1
print(cases, "files were read by kubeflow-trainer-api")
