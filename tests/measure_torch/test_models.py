"""The models on the host, where PyTorch is installed: parameters, gradients, what is recomputed."""

import sys
import unittest
from dataclasses import replace

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed for this Python")
    sys.exit(0)

from torch_measurement import settings
from torch_measurement.models import build_layer, build_model

SMALL = {"layers": 2, "hidden": 32, "heads": 4, "head_dim": 8, "ffn": 48}
MODELS = {
    "gpt": replace(settings.GPT2, **SMALL, kv_heads=4, vocab=50, learned_positions=16, seq_len=16),
    "llama": replace(settings.TINY_LLAMA, **SMALL, kv_heads=2, vocab=50, seq_len=16),
    "bert": replace(settings.BERT_BASE, **SMALL, kv_heads=4, vocab=50, learned_positions=16,
                    seq_len=16),
    "vit": replace(settings.VIT_BASE, **SMALL, kv_heads=4, image_size=16, patch_size=4,
                   num_classes=5, seq_len=17),
}  # fmt: skip


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def batch_of(setting):
    torch.manual_seed(1)
    if setting.kind == "vision":
        images = torch.randn(3, 3, setting.image_size, setting.image_size)
        return images, torch.randint(0, setting.num_classes, (3,))
    return tuple(torch.randint(0, setting.vocab, (3, setting.seq_len)) for _ in range(2))


def gradients(setting):
    """Loss and gradients of a model whose weights are always the same."""
    torch.manual_seed(2)
    model = build_model(setting).train()
    loss = model(*batch_of(setting))
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in model.parameters())]


class Models(unittest.TestCase):
    def assert_close(self, some, others):
        self.assertEqual(len(some), len(others))
        for a, b in zip(some, others):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)

    def test_parameters(self):
        h, f, v, p = 32, 48, 50, 16
        block = 4 * h * h + 4 * h + 2 * h * f + f + h + 4 * h  # biases and two norms with them
        self.assertEqual(parameters(build_model(MODELS["gpt"])), v * h + p * h + 2 * block + 2 * h)
        gated = 2 * h * h + 2 * h * 16 + 3 * h * f + 2 * h
        self.assertEqual(parameters(build_model(MODELS["llama"])), 2 * v * h + 2 * gated + h)
        head = h * h + h + 2 * h + v
        self.assertEqual(
            parameters(build_model(MODELS["bert"])), (v + p + 2) * h + 2 * h + 2 * block + head
        )
        ends = h + 17 * h + 3 * 16 * h + h + 2 * h + 5 * h + 5
        self.assertEqual(parameters(build_model(MODELS["vit"])), ends + 2 * block)

    def test_every_parameter_learns(self):
        for name, setting in MODELS.items():
            for gradient in gradients(setting):
                self.assertIsNotNone(gradient, name)
                self.assertTrue(torch.isfinite(gradient).all(), name)

    def test_an_untrained_model_guesses(self):
        loss = gradients(MODELS["vit"])[0]
        self.assertLess(abs(loss - torch.log(torch.tensor(5.0))), 0.7)

    def test_recomputation_changes_nothing(self):
        for name in ("gpt", "llama", "bert", "vit"):
            plain = gradients(MODELS[name])
            self.assert_close(plain, gradients(replace(MODELS[name], recompute="full")))
        for name in ("gpt", "llama"):
            for attention in ("flash", "eager"):
                setting = replace(MODELS[name], attention=attention)
                again = replace(setting, recompute="selective")
                self.assert_close(gradients(setting), gradients(again))

    def test_eager_attention_is_the_same(self):
        for setting in MODELS.values():
            self.assert_close(gradients(setting), gradients(replace(setting, attention="eager")))

    def test_layers(self):
        for code in ("plain_gpt", "plain_llama", "plain_bert", "plain_vit"):
            setting = settings.layer(code, 256, 16, 2)
            layer = build_layer(setting)
            x = torch.randn(2, 16, 256, requires_grad=True)
            y = layer(x)
            self.assertEqual(y.shape, x.shape)
            y.sum().backward()
            self.assertTrue(torch.isfinite(x.grad).all())


if __name__ == "__main__":
    unittest.main()
