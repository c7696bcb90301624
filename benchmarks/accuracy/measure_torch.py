#!/usr/bin/env python3
"""Measures training steps, single layers and matrix products of PyTorch on a CUDA device.

Writes CSV files that the accuracy program compares with predictions:
  torch_steps.csv         a training step a row: peak memory by PyTorch's allocator, FLOPs, and the
                          time of the step and of its parts
  runs_measure_torch.csv  the same steps in the columns of published runs
  layers.csv              the forward and the backward of one transformer block
  matmul.csv              torch.matmul in bf16, as a linear layer calls it
  families.csv            training steps of classes of transformers, where that is installed
  kernels.csv             single kernels: products by shape, format and layout, attention forward and
                          backward, element-wise operators by size
  host.csv                what issuing an operator costs the host
  traces.csv, traces/     ten steps under PyTorch's profiler: kernels and their time by operator

Memory is that of the third of three steps. Times are medians between CUDA events, with quartiles;
samples are taken back to back until the last 64 (of steps 10 at least) spread by less than 0.5 %,
or for 15 seconds (layers: 5; --most-seconds sets it). A setting that runs out of memory is a row
with fits=0; one that this version of PyTorch has no kernel for is named, and has no row. Each row
is on disk before the next begins: an interrupted run goes on where it stopped when it is started
again. A device that does not compute is measured for memory alone.

Exit status: 0; 1 where something could not be measured; 2 for a bad command line or file; 3 without
a CUDA device; 130 when interrupted.
"""

import argparse
import os
import sys
import time
from dataclasses import replace
from functools import partial

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from torch_measurement import families, files, gemm, kernels, random_settings, settings
from torch_measurement.rows import BadFile, RowFile
from torch_measurement.runner import DeviceLost, Progress, run
from torch_measurement.statistics import StopRule

# Steps are long, and products as many in a row as measure_gpu's.
RULES = {
    "steps": StopRule(fewest=10),
    "families": StopRule(fewest=10),
    "layers": StopRule(most_seconds=5.0),
    "matmul": StopRule(least_seconds=2.0),
}
KINDS = ("steps", "layers", "matmul", "families", "kernels", "host", "traces")
QUICK_RULE = StopRule(fewest=10, least_seconds=0.1, spread=0.02, most_seconds=2.0)
NO_DEVICE = 3
INTERRUPTED = 130


def positive(text):
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError
    return number


def count(text):
    number = int(text)
    if not number > 0:
        raise ValueError
    return number


def arguments(given):
    parser = argparse.ArgumentParser(
        prog="measure_torch.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out", default="measured", metavar="FOLDER", help="where the files are (measured)"
    )
    parser.add_argument(
        "--what", default=",".join(KINDS), metavar="KINDS",
        help=f"of {', '.join(KINDS[:-1])} and {KINDS[-1]}, with commas between (all)",
    )  # fmt: skip
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT",
        help="only what has this in its id, as --list prints it, or matches it with * and ?; "
        "several add up",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="print the ids, and measure nothing")
    parser.add_argument(
        "--quick", action="store_true", help="a few of each kind, for 2 seconds each at most"
    )
    parser.add_argument(
        "--random", type=count, metavar="N",
        help="in their place N steps and classes of random shapes and settings, small ones",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, metavar="N", help="with --random: which ones (the day's: 20261128)"
    )
    parser.add_argument("--memory-only", action="store_true", help="no times, and no products")
    parser.add_argument(
        "--most-seconds", type=positive, metavar="N",
        help="the longest that samples of a setting are taken for",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=positive, metavar="N",
        help="begin nothing new after N minutes, and measure in an order that is spread over all",
    )  # fmt: skip
    parser.add_argument("--device", type=int, default=0, metavar="N", help="index of the GPU (0)")
    parser.add_argument(
        "--gemm", metavar="FILE",
        help="results of measure_gpu in JSON: multiply its bf16 shapes too, and print both rates",
    )  # fmt: skip
    asked = parser.parse_args(given)
    asked.what = asked.what.split(",")
    unknown = set(asked.what) - set(KINDS)
    if unknown:
        kinds = f"{', '.join(KINDS[:-1])} and {KINDS[-1]}"
        parser.error(f"--what: none of {kinds}: {', '.join(sorted(unknown))}")
    if asked.seed is None:
        asked.seed = int(time.strftime("%Y%m%d"))
    elif asked.random is None:
        parser.error("--seed: nothing is random without --random")
    return asked


def items_of(asked):
    """What to measure, by kind."""
    if asked.random is not None:
        print(f"random settings of seed {asked.seed}", file=sys.stderr)
        drawn = random_settings.random_settings(asked.random, asked.seed)
        return {kind: settings.chosen(items, asked.only) for kind, items in drawn.items()}
    shapes = gemm.shapes(asked.gemm) if asked.gemm else gemm.default_shapes(asked.quick)
    all_of = {
        "steps": settings.quick_steps() if asked.quick else settings.steps(),
        "layers": settings.quick_layers() if asked.quick else settings.layers(),
        "matmul": shapes,
        "families": families.families()[:: 8 if asked.quick else 1],
        "kernels": kernels.kernels(asked.quick),
        "host": kernels.host_calls(asked.quick),
        "traces": [step for step in settings.steps() if step.id in kernels.TRACED][
            : 1 if asked.quick else None
        ],
    }
    found = {kind: settings.chosen(all_of[kind], asked.only) for kind in asked.what}
    if asked.minutes is None:
        return found
    return {kind: settings.spread(items) for kind, items in found.items()}


def rule_of(asked, kind):
    """When a series of samples ends."""
    rule = QUICK_RULE if asked.quick else RULES[kind]
    return rule if asked.most_seconds is None else replace(rule, most_seconds=asked.most_seconds)


def torch_device(index):
    """The device, or None, with a sentence that says why."""
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed for this Python, so nothing can be measured.",
              file=sys.stderr)  # fmt: skip
        return None
    if not torch.cuda.is_available():
        print("PyTorch finds no CUDA device, so nothing can be measured.", file=sys.stderr)
        return None
    if not 0 <= index < torch.cuda.device_count():
        print(f"There is no CUDA device {index}: PyTorch finds {torch.cuda.device_count()}.",
              file=sys.stderr)  # fmt: skip
        return None
    from torch_measurement.device import Device

    return Device(index)


def measure_all(asked, items, device):
    from torch_measurement import family_work, kernel_work, work

    is_timed = device.computes and not asked.memory_only
    if not is_timed and not asked.memory_only:
        print("The device does not compute: memory is measured, times are not.", file=sys.stderr)
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    facts = device.facts()
    same = {name: facts[name] for name in ("gpu", "torch_version")}
    kinds = {
        "steps": ("torch_steps.csv", files.STEP_FILE, work.measure_step),
        "layers": ("layers.csv", files.LAYER_FILE, work.measure_layer),
        "matmul": ("matmul.csv", files.MATMUL_FILE, work.measure_matmul),
        "families": ("families.csv", files.FAMILY_FILE, family_work.measure_family),
        "kernels": ("kernels.csv", files.KERNEL_FILE, kernel_work.measure_kernel),
        "host": ("host.csv", files.HOST_FILE, kernel_work.measure_host),
        "traces": ("traces.csv", files.TRACE_FILE, kernel_work.measure_trace),
    }
    if is_timed:
        device.heat(3.0 if asked.quick else 30.0)
    failed = []
    os.makedirs(asked.out, exist_ok=True)
    for kind, wanted in items.items():
        # Without times there is nothing to say of layers and products.
        if not wanted or (not is_timed and kind not in ("steps", "families")):
            continue
        name, columns, measure = kinds[kind]
        measure = partial(measure, device)
        if kind in RULES:
            measure = partial(measure, rule=rule_of(asked, kind) if is_timed else None)
        if kind == "traces":
            measure = partial(measure, folder=os.path.join(asked.out, "traces"))
        file = RowFile(os.path.join(asked.out, name), columns, same)
        progress = Progress(sum(item.id not in file.ids for item in wanted), kind)
        try:
            failed += run(wanted, file, measure, facts, progress, until)
        finally:
            progress.close()
            if kind == "steps":
                files.write_runs(file.path, os.path.join(asked.out, "runs_measure_torch.csv"))
    return failed


def main(given=None):
    asked = arguments(given)
    try:
        items = items_of(asked)
        if not any(items.values()):
            print("nothing has that in its id: --list prints all", file=sys.stderr)
            return 2
        if asked.list:
            for kind, wanted in items.items():
                for item in wanted:
                    print(f"{kind}  {item.id}")
            return 0
        device = torch_device(asked.device)
        if device is None:
            return NO_DEVICE
        failed = measure_all(asked, items, device)
        products = os.path.join(asked.out, "matmul.csv")
        if asked.gemm and os.path.exists(products):
            print(gemm.comparison(asked.gemm, products))
    except BadFile as error:
        print(error, file=sys.stderr)
        return 2
    except DeviceLost as error:
        print(f"The device failed: {error}. Start again to measure the rest.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted. Start again to measure the rest.", file=sys.stderr)
        return INTERRUPTED
    if failed:
        print(f"{len(failed)} could not be measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
