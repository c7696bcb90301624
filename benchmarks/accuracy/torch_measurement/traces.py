"""What a trace of PyTorch's profiler says of a step, operator by operator."""

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def by_operator(events):
    """Of a trace of PyTorch's profiler: for each operator how often it ran, the kernels that it
    launched itself, and their seconds."""
    names, rows = {}, {}
    for event in events:
        if event.get("cat") == "cpu_op":
            names[event.get("args", {}).get("External id")] = event["name"]
    for event in events:
        if event.get("cat") == "cpu_op":
            row = rows.setdefault(event["name"], [0, 0, 0.0])
            row[0] += 1
    for event in events:
        if event.get("cat") in ON_DEVICE:
            name = names.get(event.get("args", {}).get("External id"), event["cat"])
            row = rows.setdefault(name, [0, 0, 0.0])
            row[1] += 1
            row[2] += event["dur"] * 1e-6
    return rows


def rows(step, events, step_seconds):
    """The rows of a step's trace: itself, with kernels alone, then its operators, with their copies
    and fills too. `step_seconds` are without the profiler."""
    kernels = [event for event in events if event.get("cat") == "kernel"]
    first = min(event["ts"] for event in kernels)
    last = max(event["ts"] + event["dur"] for event in kernels)
    whole = {"id": step, "step": step, "operator": "", "calls": 1, "kernels": len(kernels),
             "device_s": sum(event["dur"] for event in kernels) * 1e-6,
             "step_s": step_seconds, "profiled_s": (last - first) * 1e-6}  # fmt: skip
    return [whole] + [
        {"id": f"{step}/{name}", "step": step, "operator": name, "calls": calls,
         "kernels": launched, "device_s": seconds}
        for name, (calls, launched, seconds) in sorted(by_operator(events).items())
    ]  # fmt: skip
