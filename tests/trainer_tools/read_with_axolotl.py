"""Loads what is written for axolotl with its own schema, AxolotlInputConfig, and compares what it found."""

from written_cases import compare, each_case, skip

try:
    from importlib.metadata import version

    import yaml
    from axolotl.utils.schemas.config import AxolotlInputConfig
except Exception as missing:
    skip(f"axolotl is not there: {missing}")

known = set(AxolotlInputConfig.model_fields)
cases = 0
for folder, expected in each_case("axolotl"):
    settings = yaml.safe_load((folder / "axolotl.yaml").read_text())
    assert set(settings) <= known, f"{folder}: {set(settings) - known} are no keys of axolotl"
    # Wanted of every file, and not of every plan
    for key, value in [("base_model", "a/b"), ("micro_batch_size", 1), ("gradient_accumulation_steps", 1)]:
        settings.setdefault(key, value)
    settings.setdefault("learning_rate", 1e-4)
    read = AxolotlInputConfig(**settings)
    found = {
        "model": read.base_model,
        "micro_batch": read.micro_batch_size,
        "accumulation": read.gradient_accumulation_steps,
        "sequence_length": read.sequence_len,
        "learning_rate": float(read.learning_rate),
        "tensor_parallel": read.tensor_parallel_size,
        "context_parallel": read.context_parallel_size,
    }
    # Where nothing is said, axolotl has the checkpoint that re-enters.
    if read.gradient_checkpointing:
        assert read.gradient_checkpointing_kwargs == {"use_reentrant": False}, folder
    if read.adapter:
        found["adapters"] = {
            "rank": read.lora_r,
            "magnitudes": bool(read.peft_use_dora),
            "four_bits": bool(read.load_in_4bit),
        }
    compare(folder, expected, found)
    cases += 1
print(cases, "files were read by axolotl", version("axolotl"))
