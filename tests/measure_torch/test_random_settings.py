"""Random settings: the same for a seed, of every kind, and such that a class takes them."""

import json
import unittest

from torch_measurement.random_settings import DECODERS, ENCODERS, VISION, random_settings

MANY = random_settings(2000, 7)


class RandomSettings(unittest.TestCase):
    def test_the_same_for_a_seed(self):
        self.assertEqual(random_settings(40, 3), random_settings(40, 3))
        self.assertNotEqual(random_settings(40, 3), random_settings(40, 4))
        for count in (1, 2, 7, 50):
            drawn = random_settings(count, 1)
            self.assertEqual(len(drawn["steps"]) + len(drawn["families"]), count)

    def test_ids_tell_them_apart(self):
        ids = [item.id for items in MANY.values() for item in items]
        self.assertEqual(len(set(ids)), 2000)

    def test_of_every_kind(self):
        steps, classes = MANY["steps"], {family.model_class for family in MANY["families"]}
        self.assertEqual(classes, {*DECODERS, *ENCODERS, *VISION})
        for name, values in {
            "code": {"plain_gpt", "plain_llama", "plain_bert", "plain_vit"},
            "precision": {"fp32", "bf16", "autocast_bf16", "autocast_fp16"},
            "attention": {"flash", "efficient", "math", "eager"},
            "recompute": {"none", "full", "selective"},
            "dropout": {0.0, 0.1},
            "accumulation": {1, 2, 3},
        }.items():
            self.assertEqual({getattr(step, name) for step in steps}, values, name)

    def test_shapes_fit(self):
        for step in MANY["steps"]:
            self.assertEqual(step.hidden, step.heads * step.head_dim, step.id)
            self.assertEqual(step.heads % step.kv_heads, 0, step.id)
            self.assertNotEqual((step.precision, step.attention), ("fp32", "flash"), step.id)
            self.assertLessEqual(step.seq_len, step.learned_positions or 8192, step.id)
            if step.code == "plain_llama":
                self.assertEqual(step.dropout, 0.0, step.id)
            if step.kind == "vision":
                self.assertEqual(step.seq_len, (step.image_size // 16) ** 2 + 1, step.id)
        for family in MANY["families"]:
            config, inputs = json.loads(family.config), json.loads(family.inputs)
            heads = next(config[name] for name in ("num_attention_heads", "n_head", "n_heads")
                         if name in config)  # fmt: skip
            hidden = next(config[name] for name in ("hidden_size", "n_embd", "dim", "d_model") if name in config)
            self.assertEqual(hidden % heads, 0, family.id)
            self.assertEqual(heads % config.get("num_key_value_heads", heads), 0, family.id)
            if "input_ids" in inputs:
                self.assertEqual(inputs["input_ids"]["top"], config["vocab_size"], family.id)


if __name__ == "__main__":
    unittest.main()
