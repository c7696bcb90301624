"""Every public function is asked about any value in any field, or a line of elsewhere.txt says why not."""

import pathlib
import re
import sys

from list import public_functions

here = pathlib.Path(__file__).parent
asked = "".join(
    path.read_text() for path in [*here.parent.glob("run_time/doors_of_*.cpp"), here.parent / "run_time/extreme_inputs.cpp"]
)
elsewhere = {}
for line in (here / "elsewhere.txt").read_text().splitlines():
    if line and not line.startswith("#"):
        header, name, why = line.split(maxsplit=2)
        elsewhere[header, name] = why
functions = public_functions(here.parents[1] / "include")
if len(functions) < 200:
    sys.exit(f"only {len(functions)} public functions are found in the headers")
flaws = []
named = {(header, name) for header, name, _, _ in functions}
for header, name in sorted(named):
    is_asked = re.search(rf"\b{name}\(", asked) is not None
    if is_asked and (header, name) in elsewhere:
        flaws.append(f"{header} {name}: is asked, and stands in elsewhere.txt too")
    if not is_asked and (header, name) not in elsewhere:
        flaws.append(f"{header} {name}: nobody asks it; see tests/run_time/doors_of_*.cpp")
flaws += [f"{header} {name}: stands in elsewhere.txt, and is no public function" for header, name in elsewhere.keys() - named]
print(f"{len(functions)} public functions, {len(named) - len(elsewhere)} names asked, {len(elsewhere)} elsewhere")
print(*flaws, sep="\n")
sys.exit(bool(flaws))
