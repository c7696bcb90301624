"""The program as a person starts it, without PyTorch and without a device."""

import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.join(os.environ["MEASURE_TORCH"], "measure_torch.py")


def start(*arguments, torch=""):
    """Runs it with a module `torch` of this text before any that is installed."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "torch.py"), "w", encoding="utf-8") as file:
            file.write(torch)
        return subprocess.run(
            [sys.executable, "-B", PROGRAM, "--out", os.path.join(folder, "out"), *arguments],
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            check=False,
        )


NO_TORCH = "raise ImportError('no torch')"
NO_DEVICE = "class cuda:\n    is_available = staticmethod(lambda: False)\n"
ONE_DEVICE = NO_DEVICE.replace("False", "True") + "    device_count = staticmethod(lambda: 1)\n"


class CommandLine(unittest.TestCase):
    def test_without_pytorch(self):
        ended = start(torch=NO_TORCH)
        self.assertEqual(ended.returncode, 3)
        self.assertIn("PyTorch is not installed", ended.stderr)

    def test_without_a_device(self):
        ended = start(torch=NO_DEVICE)
        self.assertEqual(ended.returncode, 3)
        self.assertEqual(
            ended.stderr, "PyTorch finds no CUDA device, so nothing can be measured.\n"
        )

    def test_without_that_device(self):
        ended = start("--device", "4", torch=ONE_DEVICE)
        self.assertEqual(ended.returncode, 3)
        self.assertIn("no CUDA device 4: PyTorch finds 1", ended.stderr)

    def test_list_needs_neither(self):
        ended = start("--list", "--quick", torch=NO_TORCH)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        lines = ended.stdout.splitlines()
        kinds = {"steps", "layers", "matmul", "families", "kernels", "host", "traces"}
        self.assertEqual({line.split()[0] for line in lines}, kinds)
        only = start("--list", "--only", "vit-base.b64", "--what", "steps", torch=NO_TORCH)
        self.assertTrue(only.stdout)
        for line in only.stdout.splitlines():
            self.assertIn("steps  vit-base.b64", line)

    def test_random_settings_by_a_seed(self):
        ended = start("--list", "--random", "7", "--seed", "5", torch=NO_TORCH)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stderr, "random settings of seed 5\n")
        kinds = [line.split()[0] for line in ended.stdout.splitlines()]
        self.assertEqual(kinds, 4 * ["steps"] + 3 * ["families"])
        for wrong in (("--seed", "5"), ("--random", "0"), ("--random", "few")):
            ended = start("--list", *wrong, torch=NO_TORCH)
            self.assertEqual(ended.returncode, 2)
            self.assertIn(wrong[0], ended.stderr.splitlines()[-1])

    def test_limited_in_time_it_begins_everywhere(self):
        every, limited = (
            start("--list", "--what", "layers", *more, torch=NO_TORCH).stdout.splitlines()
            for more in ((), ("--minutes", "1"))
        )
        self.assertEqual(sorted(every), sorted(limited))
        first = {line.split()[1].split(".")[0] for line in limited[:16]}
        self.assertEqual(first & {"plain_gpt", "plain_llama"}, {"plain_gpt", "plain_llama"})

    def test_bad_command_lines(self):
        for arguments, complaint in (
            (("--what", "steps,speed"), "speed"),
            (("--only", "no such model"), "--list prints all"),
            (("--gemm", "/no/such/file"), "No such file"),
            (("--fast",), "--fast"),
            (("--minutes", "0"), "--minutes"),
            (("--most-seconds", "-1"), "--most-seconds"),
            (("--most-seconds", "nan"), "--most-seconds"),
            (("--most-seconds", "soon"), "--most-seconds"),
        ):
            ended = start(*arguments, torch=NO_TORCH)
            self.assertEqual(ended.returncode, 2, arguments)
            self.assertIn(complaint, ended.stderr)

    def test_help(self):
        ended = start("--help", torch=NO_TORCH)
        self.assertEqual(ended.returncode, 0)
        for text in ("--quick", "--only", "--memory-only", "--most-seconds", "Exit status"):
            self.assertIn(text, ended.stdout)


if __name__ == "__main__":
    unittest.main()
