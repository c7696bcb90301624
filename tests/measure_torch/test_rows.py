"""Files that grow by rows, and that go on after an interruption."""

import csv
import os
import tempfile
import unittest

from torch_measurement.rows import BadFile, RowFile, text_of

COLUMNS = ("id", "gpu", "seconds", "notes")


class Rows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "rows.csv")

    def open(self, columns=COLUMNS, gpu="A"):
        return RowFile(self.path, columns, {"gpu": gpu})

    def read(self):
        with open(self.path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def text(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def test_each_row_is_there_at_once(self):
        file = self.open()
        self.assertEqual(self.text(), "id,gpu,seconds,notes\n")
        file.append({"id": "a", "gpu": "A", "seconds": 0.1})
        self.assertEqual(self.text(), "id,gpu,seconds,notes\na,A,0.1,\n")

    def test_numbers_read_back_as_they_were(self):
        third = 1 / 3
        self.open().append({"id": "a", "gpu": "A", "seconds": third, "notes": 'x, "y"'})
        self.assertEqual(float(self.read()[0]["seconds"]), third)
        self.assertEqual(self.read()[0]["notes"], 'x, "y"')
        self.assertEqual([text_of(x) for x in (None, True, 0, 2.0)], ["", "1", "0", "2.0"])

    def test_goes_on(self):
        self.open().append({"id": "a", "gpu": "A"})
        again = self.open()
        self.assertEqual(again.ids, {"a"})
        again.append({"id": "b", "gpu": "A"})
        self.assertEqual([row["id"] for row in self.read()], ["a", "b"])

    def test_goes_on_behind_half_a_line(self):
        self.open().append({"id": "a", "gpu": "A"})
        with open(self.path, "a", encoding="utf-8") as file:
            file.write('b,A,1.5,"half')
        again = self.open()
        self.assertEqual(again.ids, {"a"})
        again.append({"id": "b", "gpu": "A", "seconds": 2.5})
        self.assertEqual([row["seconds"] for row in self.read()], ["", "2.5"])

    def test_half_a_header(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("id,gp")
        self.open().append({"id": "a", "gpu": "A"})
        self.assertEqual([row["id"] for row in self.read()], ["a"])

    def test_other_columns(self):
        self.open()
        with self.assertRaisesRegex(BadFile, "its columns are not those"):
            self.open(columns=("id", "gpu"))

    def test_another_device(self):
        self.open().append({"id": "a", "gpu": "A"})
        with self.assertRaisesRegex(BadFile, "its gpu is 'A', and that of this run is 'B'"):
            self.open(gpu="B")

    def test_a_broken_row(self):
        self.open()
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("a,A\n")
        with self.assertRaisesRegex(BadFile, "row 2 has 2 cells"):
            self.open()

    def test_no_row_twice_and_no_unknown_column(self):
        file = self.open()
        file.append({"id": "a", "gpu": "A"})
        with self.assertRaises(ValueError):
            file.append({"id": "a", "gpu": "A"})
        with self.assertRaisesRegex(ValueError, "power"):
            file.append({"id": "b", "gpu": "A", "power": 1})


if __name__ == "__main__":
    unittest.main()
