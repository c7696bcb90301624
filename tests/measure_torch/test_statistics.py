"""Medians, spreads and the rule that ends a series, on series whose answers are known."""

import math
import statistics
import unittest

from torch_measurement.statistics import (
    StopRule,
    at_full_clock,
    is_steady,
    quantile,
    relative_spread,
    summarise,
)


class Quartiles(unittest.TestCase):
    def test_as_the_standard_library_has_them(self):
        for samples in ([3.0, 1.0], [5.0, 1.0, 2.0, 9.0], [7.0, 1.5, 3.0, 3.0, 8.25, 2.0, 11.0]):
            first, median, third = statistics.quantiles(samples, n=4, method="inclusive")
            found = summarise(samples)
            self.assertAlmostEqual(found.first_quartile, first, places=12)
            self.assertAlmostEqual(found.median, median, places=12)
            self.assertAlmostEqual(found.third_quartile, third, places=12)
            self.assertEqual(found.count, len(samples))

    def test_of_one_and_of_none(self):
        self.assertEqual(summarise([2.5]).first_quartile, 2.5)
        with self.assertRaises(ValueError):
            summarise([])

    def test_ends(self):
        self.assertEqual(quantile([1.0, 2.0, 4.0], 0), 1.0)
        self.assertEqual(quantile([1.0, 2.0, 4.0], 1), 4.0)

    def test_parts_of_a_sample(self):
        part = summarise([4.0, 8.0, 16.0]).over(4)
        self.assertEqual((part.first_quartile, part.median, part.third_quartile), (1.5, 2.0, 3.0))
        self.assertEqual(part.count, 3)


class Spread(unittest.TestCase):
    def test_is_standard_deviation_over_mean(self):
        samples = [1.0, 1.5, 0.75, 2.0]
        expected = statistics.stdev(samples) / statistics.mean(samples)
        self.assertAlmostEqual(relative_spread(samples), expected, places=14)

    def test_is_of_the_last(self):
        self.assertEqual(relative_spread([100.0] + [1.0] * 64), 0)
        self.assertGreater(relative_spread([100.0] + [1.0] * 63), 1)

    def test_of_too_few_is_infinite(self):
        self.assertEqual(relative_spread([1.0]), math.inf)


class Stopping(unittest.TestCase):
    rule = StopRule(fewest=4, least_seconds=1.0, spread=0.01, last=4, most_seconds=10.0, most=50)

    def test_steady(self):
        self.assertEqual(self.rule.verdict([0.5] * 4, 2.0), "steady")

    def test_not_before_there_are_enough_or_they_are_long_enough(self):
        self.assertIsNone(self.rule.verdict([0.5] * 3, 2.0))
        self.assertIsNone(self.rule.verdict([0.2] * 4, 2.0))
        self.assertEqual(self.rule.verdict([0.2] * 5, 2.0), "steady")

    def test_not_while_they_spread(self):
        self.assertIsNone(self.rule.verdict([0.5, 0.6] * 4, 9.9))

    def test_capped_by_time_and_by_number(self):
        self.assertEqual(self.rule.verdict([0.5, 0.6] * 4, 10.0), "capped")
        self.assertEqual(self.rule.verdict([0.01, 0.02] * 25, 1.0), "capped")

    def test_one_sample_never_ends_it(self):
        self.assertIsNone(self.rule.verdict([20.0], 20.0))


class Clocks(unittest.TestCase):
    def test_slow_samples_go(self):
        self.assertEqual(at_full_clock([1, 2, 3, 4], [1000, 760, 700, 1000]), [1, 2, 3, 4])
        self.assertEqual(at_full_clock([1, 2, 3, 4, 5], [990, 1000, 700, 760, 1000]), [1, 2, 4, 5])

    def test_nothing_goes_where_a_clock_is_not_known(self):
        self.assertEqual(at_full_clock([1, 2], [1000, None]), [1, 2])
        self.assertEqual(at_full_clock([1, 2], []), [1, 2])

    def test_steady_windows(self):
        self.assertTrue(is_steady([100.0, 1980.0, 1975.0, 1970.0]))
        self.assertFalse(is_steady([1980.0, 1975.0, 1950.0]))
        self.assertFalse(is_steady([1980.0, 1980.0]))


if __name__ == "__main__":
    unittest.main()
