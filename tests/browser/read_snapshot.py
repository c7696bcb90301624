"""Reads a snapshot of gpuplan with Python's pickle and PyTorch's own viewer, and a pickle of any protocol with gpuplan.

read_snapshot.py GPUPLAN: skipped (77) where PyTorch is not installed.
"""

import pathlib
import pickle
import subprocess
import sys
import tempfile

try:
    from torch.cuda import _memory_viz
except ImportError as missing:
    print(f"PyTorch is not there: {missing}")
    sys.exit(77)

STEP = "gpt2 --framework torch-gpt --micro-batch 2 --sequence-length 256".split()


def run(*arguments):
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def main():
    gpuplan = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        written = pathlib.Path(name) / "predicted.pickle"
        run(gpuplan, "memory", *STEP, "--snapshot", str(written))
        snapshot = pickle.loads(written.read_bytes())
        (trace,) = snapshot["device_traces"]
        in_use = most = 0
        for event in trace:
            in_use += {"alloc": 1, "free_completed": -1}.get(event["action"], 0) * event["size"]
            most = max(most, in_use)
        held = [block for segment in snapshot["segments"] for block in segment["blocks"]]
        assert in_use == sum(block["requested_size"] for block in held if block["state"] == "active_allocated")
        for segment in snapshot["segments"]:
            assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
        reserved = sum(event["size"] for event in trace if event["action"] == "segment_alloc")
        assert reserved == sum(segment["total_size"] for segment in snapshot["segments"])
        assert f"{len(trace)} entries" in _memory_viz.trace(snapshot)
        assert "<script" in _memory_viz.trace_plot(snapshot)
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            other = pathlib.Path(name) / f"protocol{protocol}.pickle"
            other.write_bytes(pickle.dumps(snapshot, protocol))
            said = " ".join(run(gpuplan, "memory", *STEP, "--measured", str(other)).split())
            assert f"predicted {most:,} B" in said and f"measured {most:,} B" in said, said
            assert "allocations of the predicted step are measured ones" in said, said
    print("read all")


if __name__ == "__main__":
    main()
