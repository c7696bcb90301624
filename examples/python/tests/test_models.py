"""What a model may be."""

import json
from pathlib import Path

import gpuplan
import pytest

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "max_position_embeddings": 2048,
    "num_attention_heads": 32,
    "num_hidden_layers": 22,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
}


class Config:
    """What a config of transformers has."""

    name_or_path = "TinyLlama/TinyLlama_v1.1"

    def to_dict(self):
        return dict(CONFIG)


class Module:
    config = Config()


@pytest.fixture
def said(program, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    printed = program("fits", str(file), "--gpu", "4090", "--format", "json")
    return json.loads(printed.stdout)["answer"]


@pytest.mark.parametrize("model", [CONFIG, Config(), Module()], ids=["dict", "config", "module"])
def test_that_python_holds(said, model):
    assert gpuplan.fits(model, gpu="4090").to_dict()["answer"] == said


def test_in_files(said, tmp_path, monkeypatch):
    for model in (tmp_path, str(tmp_path), tmp_path / "config.json"):
        assert gpuplan.fits(model, gpu="4090").to_dict()["answer"] == said
    monkeypatch.chdir(tmp_path.parent)  # a path is none of the catalogue's names
    assert gpuplan.fits(Path(tmp_path.name), gpu="4090").to_dict()["answer"] == said


def test_names():
    assert str(gpuplan.memory(Config())).startswith("TinyLlama/TinyLlama_v1.1: ")
    assert str(gpuplan.memory(CONFIG)).startswith("a model of type llama: ")


def test_refused():
    with pytest.raises(gpuplan.PlanError, match="MODEL of this text: .*model_type"):
        gpuplan.fits({"hidden_size": 64})
    with pytest.raises(gpuplan.PlanError, match="MODEL a model of type llama: .*hidden_size"):
        gpuplan.fits({**CONFIG, "hidden_size": -1})
    with pytest.raises(TypeError, match="a model is a name, a path, a dict"):
        gpuplan.fits(7)
