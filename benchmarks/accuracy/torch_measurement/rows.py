"""CSV files that grow by a row at a time, and go on where an interrupted run left them."""

import csv
import io
import os


class BadFile(Exception):
    """A file that holds something else than this run would write."""


def text_of(value):
    """A cell. Blank is unknown; numbers are written so that they read back the same."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


def _line(cells):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([text_of(cell) for cell in cells])
    return out.getvalue()


class RowFile:
    """Rows of named columns, each on disk before the next is measured.

    A file that is there is continued: its columns must be these, the cells of `same` must be equal
    in all of its rows, and what an interruption left of a last line is cut off.
    """

    def __init__(self, path, columns, same=None):
        self.path = path
        self.columns = list(columns)
        self.ids = set()
        if os.path.exists(path) and os.path.getsize(path) > 0:
            self._continue(same or {})
        else:
            self._append(_line(self.columns))

    def _continue(self, same):
        with open(self.path, "rb") as file:
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if not whole:
            whole = b""
        rows = list(csv.reader(io.StringIO(whole.decode("utf-8"), newline="")))
        if rows and rows[0] != self.columns:
            raise BadFile(f"{self.path}: its columns are not those that this version writes")
        for number, cells in enumerate(rows[1:], start=2):
            if len(cells) != len(self.columns):
                raise BadFile(f"{self.path}: row {number} has {len(cells)} cells")
            row = dict(zip(self.columns, cells, strict=True))
            for column, value in same.items():
                if row[column] != text_of(value):
                    raise BadFile(
                        f"{self.path}: its {column} is {row[column]!r}, and that of this run is "
                        f"{text_of(value)!r}; name another folder"
                    )
            self.ids.add(row["id"])
        if len(whole) < len(data):
            with open(self.path, "r+b") as file:
                file.truncate(len(whole))
        if not rows:
            self._append(_line(self.columns))

    def _append(self, text):
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def append(self, row):
        unknown = row.keys() - set(self.columns)
        if unknown:
            raise ValueError(f"no column of {self.path}: {', '.join(sorted(unknown))}")
        if row["id"] in self.ids:
            raise ValueError(f"{row['id']} is in {self.path} already")
        self._append(_line([row.get(column) for column in self.columns]))
        self.ids.add(row["id"])
