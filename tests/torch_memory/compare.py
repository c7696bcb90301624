"""Which of the measured steps are predicted to the byte, by what the program accuracy says of their files."""

import csv
import io
import pathlib
import subprocess
import sys

QUANTITIES = ("peak_requested", "peak_allocated")
WANTED = 0.95


def main(folder, accuracy):
    files = [file for name in ("torch_steps.csv", "families.csv")
             if (file := pathlib.Path(folder) / name).exists()]  # fmt: skip
    measured = {row["id"]: row for file in files for row in csv.DictReader(file.open(encoding="utf-8"))}
    said = subprocess.run(
        [accuracy, "--rows", "--format", "csv", *files], capture_output=True, text=True, check=True
    ).stdout
    equal = dict.fromkeys(QUANTITIES, 0)
    for row in csv.DictReader(io.StringIO(said)):
        if row["quantity"] not in QUANTITIES:
            continue
        difference = float(row["predicted"] or "nan") - float(row["measured"])
        equal[row["quantity"]] += difference == 0
        if difference != 0:
            print(f"{row['id']}: {row['quantity']} {row['measured']}, predicted "
                  f"{row['predicted'] or row['skipped']}")  # fmt: skip
    versions = {(row["torch_version"], row.get("transformers_version", "")) for row in measured.values()}
    for torch, transformers in sorted(versions):
        print(f"PyTorch {torch}" + (f", transformers {transformers}" if transformers else ""))
    for quantity, count in equal.items():
        print(f"{quantity}: {count} of {len(measured)} equal to the byte")
    return 0 if measured and min(equal.values()) >= WANTED * len(measured) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
