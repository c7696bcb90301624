"""What is measured, and the table of runs that follows from that of the steps."""

import csv
import json
import os
import tempfile
import unittest

from torch_measurement import families, files, gemm, kernels, settings, traces
from torch_measurement.rows import BadFile, RowFile


def event(kind, name, number, begin=0, long=0):
    return {"cat": kind, "name": name, "args": {"External id": number}, "ts": begin, "dur": long}


class Traces(unittest.TestCase):
    def test_kernels_are_their_operators(self):
        events = [
            event("cpu_op", "aten::linear", 1), event("cpu_op", "aten::mm", 2),
            event("cpu_op", "aten::mm", 3), event("user_annotation", "step", 0),
            event("kernel", "gemm", 2, 10, 5), event("kernel", "split", 2, 16, 1),
            event("kernel", "gemm", 3, 20, 7), event("gpu_memset", "Memset", 3, 18, 2),
            event("kernel", "nobody's", 9, 40, 3), {"ph": "M"},
        ]  # fmt: skip
        whole, *operators = traces.rows("a step", events, 0.5)
        self.assertEqual((whole["id"], whole["operator"], whole["kernels"]), ("a step", "", 4))
        self.assertAlmostEqual(whole["device_s"], 16e-6)
        self.assertAlmostEqual(whole["profiled_s"], 33e-6)
        self.assertEqual(whole["step_s"], 0.5)
        found = {row["operator"]: (row["calls"], row["kernels"], round(1e6 * row["device_s"]))
                 for row in operators}  # fmt: skip
        self.assertEqual(
            found, {"aten::linear": (1, 0, 0), "aten::mm": (2, 4, 15), "kernel": (0, 1, 3)}
        )
        for row in (whole, *operators):
            self.assertLessEqual(row.keys(), set(files.TRACE_FILE))


class Settings(unittest.TestCase):
    def test_every_id_is_one(self):
        for items in (
            settings.steps(), settings.quick_steps(), settings.layers(), settings.quick_layers(),
            gemm.default_shapes(), gemm.default_shapes(quick=True), kernels.kernels(),
            kernels.kernels(quick=True), kernels.host_calls(), families.families(),
        ):  # fmt: skip
            ids = [item.id for item in items]
            self.assertTrue(ids)
            self.assertEqual(len(ids), len(set(ids)))

    def test_every_column_has_a_place(self):
        for items, columns in (
            (settings.steps(), files.STEP_FILE), (settings.layers(), files.LAYER_FILE),
            (gemm.default_shapes(), files.MATMUL_FILE), (kernels.kernels(), files.KERNEL_FILE),
            (kernels.host_calls(), files.HOST_FILE), (families.families(), files.FAMILY_FILE),
        ):  # fmt: skip
            self.assertLessEqual(items[0].columns().keys(), set(columns))
            self.assertEqual(len(columns), len(set(columns)))

    def test_the_steps_vary_what_they_should(self):
        steps = settings.steps()
        for column, values in (
            ("family", {"gpt2", "llama", "bert", "vit"}),
            ("precision", {"fp32", "bf16", "autocast_bf16", "autocast_fp16"}),
            ("recompute", {"none", "full", "selective"}),
            ("attention", {"flash", "efficient", "math", "eager"}),
        ):
            self.assertEqual({getattr(step, column) for step in steps}, values)
        self.assertGreater(len({(step.optimizer, step.optimizer_impl) for step in steps}), 8)

    def test_kernels_that_cannot_be(self):
        for step in [*settings.steps(), *settings.quick_steps()]:
            self.assertFalse(step.precision == "fp32" and step.attention == "flash", step.id)

    def test_the_kernels_span_what_steps_have(self):
        found = kernels.kernels()
        for number_format in kernels.FORMATS:
            shapes = {
                (one.m, one.n, one.k)
                for one in found
                if (one.kind, one.format, one.op) == ("product", number_format, "tn")
            }
            self.assertGreaterEqual(len(shapes), 300, number_format)
            if number_format == "fp8":
                self.assertFalse([shape for shape in shapes if any(side % 16 for side in shape)])
            else:
                self.assertTrue([shape for shape in shapes if shape[1] % 2])
                self.assertTrue([shape for shape in shapes if max(shape) < 1024])
        attention = {(one.kernel, one.op) for one in found if one.kind == "attention"}
        self.assertEqual(len(attention), 6)
        self.assertEqual({one.op for one in found if one.kind == "elements"}, set(kernels.ELEMENTS))

    def test_the_traced_steps_are_steps(self):
        ids = {step.id for step in settings.steps()}
        self.assertEqual(len(kernels.TRACED), 10)
        self.assertEqual(set(kernels.TRACED) - ids, set())

    def test_choosing(self):
        steps = settings.steps()
        only = settings.chosen(steps, ["bert-base.b16", "*.fp32.*"])
        self.assertTrue(only)
        for step in only:
            self.assertTrue("bert-base.b16" in step.id or step.precision == "fp32")
        self.assertEqual(settings.chosen(steps, ["no such"]), [])
        self.assertEqual(settings.chosen(steps, []), steps)

    def test_a_beginning_of_the_spread_is_spread(self):
        for count in (1, 2, 5, 64, 251):
            items = list(range(count))
            order = settings.spread(items)
            self.assertEqual(sorted(order), items)
            for begun in range(1, count + 1):
                seen = [-1, *sorted(order[:begun]), count]
                widest = max(b - a for a, b in zip(seen, seen[1:]))
                self.assertLessEqual(widest, max(2, 4 * count / begun))
        self.assertEqual(settings.spread([]), [])


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def runs_of(self, *rows):
        steps, runs = (os.path.join(self.folder, name) for name in ("steps.csv", "runs.csv"))
        file = RowFile(steps, files.STEP_FILE)
        for step, measured in rows:
            file.append({**step.columns(), "gpu": "A", **measured})
        self.assertEqual(files.write_runs(steps, runs), files.write_runs(steps, runs))
        with open(runs, newline="", encoding="utf-8") as written:
            return list(csv.DictReader(written))

    def test_a_run(self):
        step = settings.replace(settings.LLAMA_1B, micro_batch=2, accumulation=3)
        (run,) = self.runs_of(
            (step, {"fits": 1, "step_s": 0.5, "peak_allocated": 12345678901, "params": 7})
        )
        self.assertEqual(float(run["peak_alloc_GiB"]) * 2**30, 12345678901)
        self.assertEqual(float(run["tokens_per_s_per_gpu"]), 2 * 3 * 2048 / 0.5)
        for column, cell in (
            ("source", "measure_torch"), ("attention", "gqa"), ("precision", "bf16"),
            ("grad_bytes", "4"), ("global_batch", "6"), ("grad_accum", "3"), ("causal", "1"),
            ("flash_attention", "1"), ("step_s", "0.5"), ("params_printed", "7"), ("tp", "1"),
            ("peak_reserved_GiB", ""), ("mfu_pct", ""),
        ):  # fmt: skip
            self.assertEqual(run[column], cell, column)
        for note in ("code=plain_llama", "attention=flash", "precision_printed=autocast_bf16"):
            self.assertIn(note, run["notes"].split("; "))

    def test_what_ran_out_of_memory_and_what_has_no_words(self):
        runs = self.runs_of(
            (settings.GPT2, {"fits": 0}), (settings.VIT_BASE, {"fits": 1}),
            (settings.BERT_BASE, {"fits": 1}),
        )  # fmt: skip
        self.assertEqual([(run["fits"], run["causal"]) for run in runs], [("0", "1"), ("1", "0")])
        self.assertEqual(runs[0]["step_s"], "")


class Products(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = os.path.join(folder.name, "results.json")
        self.products = os.path.join(folder.name, "matmul.csv")

    def write(self, results):
        with open(self.results, "w", encoding="utf-8") as file:
            file.write(results if isinstance(results, str) else json.dumps(results))

    @staticmethod
    def shape(m, n, k):
        return {"m": m, "n": n, "k": k}

    def test_beside_those_of_measure_gpu(self):
        bf16 = {"format": "bf16", "sum": "fp32"}
        self.write({
            "matmuls": [
                {**bf16, "shape": self.shape(8, 16, 32), "sustained": {"median": 101e12}},
                {"format": "fp16", "sum": "fp32", "shape": self.shape(1, 2, 3)},
            ],
            "surface": [{**bf16, "shape": self.shape(64, 64, 64), "rate": 90e12}],
        })  # fmt: skip
        shapes = gemm.shapes(self.results)
        self.assertEqual([item.id for item in shapes], ["bf16.8x16x32", "bf16.64x64x64"])
        file = RowFile(self.products, files.MATMUL_FILE)
        for item in shapes:
            file.append({**item.columns(), "fits": 1, "tflops": 100.0})
        table = gemm.comparison(self.results, self.products).splitlines()
        self.assertEqual(table[1].split(), ["8", "16", "32", "100.0", "101.0", "+1.00%"])
        self.assertEqual(table[2].split()[-1], "-10.00%")
        self.assertEqual(table[3], "1 of 2 within 2 %")

    def test_other_files(self):
        for text in ("", "[]", '{"matmuls": [{}]}', '{"matmuls": []}', '{"surface": 3}'):
            self.write(text)
            with self.assertRaises(BadFile):
                gemm.shapes(self.results)
        with self.assertRaisesRegex(BadFile, "No such file"):
            gemm.shapes(self.results + "x")


if __name__ == "__main__":
    unittest.main()
