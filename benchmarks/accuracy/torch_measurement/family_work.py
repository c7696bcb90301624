"""Steps of classes of transformers on the device: memory and time."""

import json

import torch

from .work import StepJob, measure_on, step_memory, step_times

PEAKS = ("peak_requested", "peak_allocated", "peak_reserved")


class FamilyJob(StepJob):
    """A class of transformers, fused AdamW and one batch."""

    def __init__(self, setting):
        import transformers

        transformers.logging.set_verbosity_error()
        # Asks the device about every batch whether sequences are packed, which it is not to be.
        transformers.masking_utils.find_packed_sequence_indices = lambda position_ids: None
        self.setting = setting
        kind = getattr(transformers, setting.model_class)
        config = kind.config_class(**json.loads(setting.config))
        config._attn_implementation = setting.attention or "sdpa"
        self.config = config
        with torch.device("cuda"):
            self.model = kind(config)
        if setting.liger_kernels:
            from liger_kernel.transformers import _apply_liger_kernel_to_instance

            _apply_liger_kernel_to_instance(model=self.model)
        if setting.precision == "bf16":
            self.model.to(torch.bfloat16)
        if setting.recompute == "full":
            self.model.gradient_checkpointing_enable(
                gradient_checkpointing_kwargs={"use_reentrant": False}
            )
        self.model.train()
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-4, fused=True)
        self.scaler = None
        given = torch.bfloat16 if setting.precision == "bf16" else torch.float32
        self.inputs = {
            name: torch.randint(0, spec["top"], spec["shape"], device="cuda")
            if spec["kind"] == "ids"
            else torch.randn(spec["shape"], device="cuda", dtype=given)
            for name, spec in json.loads(setting.inputs).items()
        }
        self.batch = tuple(self.inputs.values())

    def loss(self):
        return self.model(**self.inputs).loss


def measure_family(device, setting, rule):
    import transformers

    device.empty()
    found = {"transformers_version": transformers.__version__}

    def measure():
        job = FamilyJob(setting)
        found["model_type"] = job.config.model_type
        config = job.config.to_dict()
        config["architectures"] = [setting.model_class]
        found["config_file"] = json.dumps(config, default=str)
        found["params_total"] = found["params_trainable"] = sum(p.numel() for p in job.parameters)
        memory = step_memory(job)
        found.update({name: memory[name] for name in PEAKS})
        if rule is not None:
            found.update(step_times(device, job, rule))

    measure_on(device, measure, found)
    return found
