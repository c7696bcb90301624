"""Matrix products: which shapes, and their rates beside those that measure_gpu measured."""

import csv
import json

from .rows import BadFile
from .settings import Matmul

# Those of measure_gpu, and smaller squares.
USUAL_SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 8192, 1280))
CLAIM = 0.02  # by which both may differ


def default_shapes(quick=False):
    if quick:
        return [Matmul(2048, 2048, 2048), Matmul(4096, 4096, 4096)]
    return [Matmul(*shape) for shape in ((1024,) * 3, (2048,) * 3, *USUAL_SHAPES, (16384,) * 3)]


def rates(path):
    """FLOP/s by (m, n, k) of the products in bf16 with fp32 sums that a file of measure_gpu holds:
    back to back, of random numbers."""
    try:
        with open(path, encoding="utf-8") as file:
            measured = json.load(file)
        found = {}
        for point in measured.get("surface", ()):
            if (point["format"], point["sum"]) == ("bf16", "fp32"):
                found[tuple(point["shape"][side] for side in "mnk")] = float(point["rate"])
        for one in measured.get("matmuls", ()):
            if (one["format"], one["sum"]) == ("bf16", "fp32") and "sustained" in one:
                rate = float(one["sustained"]["median"])
                found[tuple(one["shape"][side] for side in "mnk")] = rate
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadFile(f"{path}: not what measure_gpu writes: {error!r}") from None
    if not found:
        raise BadFile(f"{path}: it has no products in bf16")
    return found


def shapes(path):
    return [Matmul(*shape) for shape in sorted(rates(path))]


def comparison(gemm_path, matmul_path):
    """A table of both rates in TFLOP/s, and how many agree."""
    own = rates(gemm_path)
    lines = [f"{'m':>8} {'n':>8} {'k':>8} {'torch':>10} {'measure_gpu':>12} {'differs by':>11}"]
    compared = close = 0
    with open(matmul_path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            shape = tuple(int(row[side]) for side in "mnk")
            if row["precision"] != "bf16" or shape not in own or not row["tflops"]:
                continue
            torch_rate, own_rate = float(row["tflops"]), own[shape] / 1e12
            differs = own_rate / torch_rate - 1
            compared += 1
            close += abs(differs) <= CLAIM
            sizes = " ".join(f"{side:8d}" for side in shape)
            lines.append(f"{sizes} {torch_rate:10.1f} {own_rate:12.1f} {100 * differs:+10.2f}%")
    lines.append(f"{close} of {compared} within {100 * CLAIM:.0f} %")
    return "\n".join(lines)
