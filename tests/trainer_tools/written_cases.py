"""What the readers with the trainers' own parsers share."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77  # as CMakeLists.txt has it


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def each_case(tool, cases=300):
    """Folder and expected members of each case that the program in argv[1] writes."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], tool, folder, str(cases)], check=True)
        for case in sorted(pathlib.Path(folder).iterdir()):
            yield case, json.loads((case / "expected.json").read_text())


def compare(case, expected, found):
    """Ends the test where the parser found something else than was to be written."""
    for name, value in found.items():
        if name not in expected:
            continue
        wanted = expected[name]
        same = abs(value - wanted) <= 1e-9 * abs(wanted) if isinstance(wanted, float) else value == wanted
        if not same:
            sys.exit(f"{case}: {name} is {value!r}, not {wanted!r}")


def words_of_script(script, environment={}):
    """The words behind torchrun of a script, as bash has them: torchrun is a function that prints them."""
    shown = "torchrun() { printf '%s\\n' torchrun \"$@\"; }\n" + script
    environment = {"PATH": os.environ["PATH"], **environment}
    ran = subprocess.run(["bash", "-c", shown], check=True, capture_output=True, text=True, env=environment)
    words = ran.stdout.splitlines()
    assert words[0] == "torchrun", words
    return words[1:]


def as_if_on_h100s(torch):
    """What is asked of a device is answered as an H100 would."""

    class properties:
        name, major, minor, multi_processor_count = "NVIDIA H100 80GB HBM3", 9, 0, 132

    torch.cuda.device_count = lambda: 8
    torch.cuda.get_device_capability = lambda *device: (9, 0)
    torch.cuda.get_device_properties = lambda *device: properties
