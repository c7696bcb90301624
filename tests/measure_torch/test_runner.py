"""The loop over what is measured, with a device that is played: memory runs out, things fail."""

import csv
import io
import os
import tempfile
import unittest
from dataclasses import dataclass

from torch_measurement.rows import RowFile
from torch_measurement.runner import DeviceLost, NoKernel, OutOfMemory, Progress, run


@dataclass(frozen=True)
class Item:
    id: str

    def columns(self):
        return {"id": self.id}


ITEMS = [Item("a"), Item("b"), Item("c")]


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "rows.csv")
        self.said = io.StringIO()
        self.asked = []

    def run_all(self, answers, **more):
        def measure(item):
            self.asked.append(item.id)
            answer = answers.get(item.id, {"bytes": 1})
            if isinstance(answer, BaseException):
                raise answer
            return answer

        file = RowFile(self.path, ("id", "gpu", "fits", "bytes"))
        progress = Progress(len(ITEMS), "things", self.said)
        return run(ITEMS, file, measure, {"gpu": "A"}, progress, **more)

    def rows(self):
        with open(self.path, newline="", encoding="utf-8") as file:
            return [tuple(row.values()) for row in csv.DictReader(file)]

    def test_out_of_memory_is_a_row(self):
        self.assertEqual(self.run_all({"b": OutOfMemory({"bytes": 7})}), [])
        self.assertEqual(
            self.rows(), [("a", "A", "1", "1"), ("b", "A", "0", "7"), ("c", "A", "1", "1")]
        )
        self.assertIn("things 2/3  b", self.said.getvalue())
        self.assertIn("out of memory", self.said.getvalue())

    def test_a_failure_is_named_and_has_no_row(self):
        failed = self.run_all({"a": RuntimeError("no kernel\nfor that")})
        self.assertEqual(failed, ["a"])
        self.assertIn("failed: a: RuntimeError: no kernel for that", self.said.getvalue())
        self.assertEqual([row[0] for row in self.rows()], ["b", "c"])

    def test_what_has_no_kernel_is_named_and_did_not_fail(self):
        self.assertEqual(self.run_all({"b": NoKernel("none that takes it")}), [])
        self.assertIn("no kernel: b: none that takes it", self.said.getvalue())
        self.assertEqual([row[0] for row in self.rows()], ["a", "c"])

    def test_an_item_of_several_rows_is_there_once_its_first_is(self):
        rows = [{"id": name, "bytes": at} for at, name in enumerate(("b", "b/1", "b/2"))]
        self.assertEqual(self.run_all({"b": rows}), [])
        self.assertEqual([row[0] for row in self.rows()], ["a", "b/1", "b/2", "b", "c"])
        self.asked.clear()
        self.run_all({"b": rows})
        self.assertEqual(self.asked, [])
        # What an interruption left of them is not written twice.
        with open(self.path, encoding="utf-8") as file:
            lines = file.readlines()
        with open(self.path, "w", encoding="utf-8") as file:
            file.writelines(lines[:3])
        self.run_all({"b": rows})
        self.assertEqual([row[0] for row in self.rows()], ["a", "b/1", "b/2", "b", "c"])

    def test_again_measures_what_is_not_there(self):
        self.run_all({"a": RuntimeError("once"), "b": OutOfMemory()})
        self.asked.clear()
        self.assertEqual(self.run_all({}), [])
        self.assertEqual(self.asked, ["a"])
        self.assertEqual([row[0] for row in self.rows()], ["b", "c", "a"])

    def test_interrupted(self):
        with self.assertRaises(KeyboardInterrupt):
            self.run_all({"b": KeyboardInterrupt()})
        self.assertEqual([row[0] for row in self.rows()], ["a"])
        self.asked.clear()
        self.run_all({})
        self.assertEqual(self.asked, ["b", "c"])

    def test_a_lost_device_ends_it(self):
        with self.assertRaises(DeviceLost):
            self.run_all({"b": DeviceLost("illegal access")})
        self.assertEqual(self.asked, ["a", "b"])

    def test_begins_nothing_when_the_time_is_over(self):
        times = iter([0.0, 1.0, 5.0, 11.0])
        self.run_all({}, until=10.0, now=lambda: next(times))
        self.assertEqual(self.asked, ["a"])
        self.assertIn("the time is over", self.said.getvalue())


if __name__ == "__main__":
    unittest.main()
