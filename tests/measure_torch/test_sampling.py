"""Series of a device that is played: what counts, what is dropped, and when it ends."""

import unittest

from torch_measurement.sampling import Window, Windows, columns_of, series, spread_columns
from torch_measurement.statistics import StopRule


class Played:
    """Takes what it is told to, and lets the time pass that this takes."""

    def __init__(self, forward, backward=0.5, clocks=None, held=None):
        self.forward, self.backward = forward, backward
        self.clocks, self.held = clocks or (lambda window: 1980), held or (lambda window: True)
        self.time, self.taken, self.windows = 0.0, 0, []

    def take(self, count):
        parts = []
        for _ in range(count):
            parts.append({"forward": self.forward(self.taken), "backward": self.backward})
            self.taken += 1
        self.time += sum(sum(one.values()) for one in parts)
        number = len(self.windows)
        self.windows.append(count)
        return Window(parts, [0.125] * count, self.clocks(number), 300.0, self.held(number))

    def now(self):
        return self.time


RULE = StopRule(fewest=6, least_seconds=1.0, spread=0.01, last=6, most_seconds=100.0)


class Series(unittest.TestCase):
    def test_the_first_two_windows_do_not_count(self):
        played = Played(lambda taken: 90.0 if taken < 2 else 1.0)
        found = series(played.take, RULE, now=played.now)
        self.assertEqual(found.verdict, "steady")
        self.assertEqual(found.parts["forward"].third_quartile, 1.0)
        self.assertEqual(found.total.median, 1.5)
        self.assertEqual(found.total.count, 6)
        self.assertEqual(found.launch_seconds, 0.125)

    def test_short_samples_come_many_in_a_window(self):
        played = Played(lambda taken: 0.001, backward=0.001)
        series(played.take, RULE, most_in_window=8, now=played.now)
        self.assertEqual(set(played.windows[2:]), {8})
        played = Played(lambda taken: 0.02, backward=0.02)
        series(played.take, RULE, most_in_window=8, now=played.now)
        self.assertEqual(set(played.windows[2:]), {2})

    def test_ends_by_time(self):
        played = Played(lambda taken: 1.0 + taken % 2)
        found = series(played.take, RULE, now=played.now)
        self.assertEqual(found.verdict, "capped")
        self.assertGreaterEqual(played.time, 100)
        self.assertEqual(columns_of(found)["steady"], 0)
        self.assertEqual(found.parts["forward"].median, 1.5)

    def test_samples_at_a_low_clock_are_dropped(self):
        played = Played(
            lambda taken: 4.0 if taken == 4 else 1.0,
            clocks=lambda window: 900 if window == 4 else 1980,
        )
        found = series(played.take, RULE, now=played.now)
        self.assertEqual(found.dropped, 1)
        self.assertEqual(found.parts["forward"].third_quartile, 1.0)
        self.assertEqual(found.clock_MHz, 1980)
        self.assertEqual(found.power_W, 300.0)

    def test_windows_that_were_not_held_do_not_count(self):
        played = Played(
            lambda taken: 7.0 if taken in (3, 5) else 1.0, held=lambda window: window not in (3, 5)
        )
        found = series(played.take, RULE, now=played.now)
        self.assertEqual((found.verdict, found.total.third_quartile), ("steady", 1.5))

    def test_the_time_begins_with_the_first_window_that_counts(self):
        rule = StopRule(fewest=6, least_seconds=1.0, spread=0.0, last=6, most_seconds=3.0)
        played = Played(lambda taken: 1.0, held=lambda window: window > 5)
        found = series(played.take, rule, now=played.now)
        self.assertEqual((found.verdict, found.total.count), ("capped", 2))
        self.assertEqual(len(played.windows), 8)

    def test_a_device_that_never_waits(self):
        played = Played(lambda taken: 1.0, held=lambda window: False)
        with self.assertRaisesRegex(RuntimeError, "did not wait"):
            series(played.take, RULE, now=played.now)

    def test_unknown_clock_and_power(self):
        played = Played(lambda taken: 1.0, clocks=lambda window: None)
        self.assertIsNone(columns_of(series(played.take, RULE, now=played.now))["sm_clock_MHz"])

    def test_columns(self):
        played = Played(lambda taken: 1.0)
        found = series(played.take, RULE, now=played.now)
        self.assertEqual(
            spread_columns("forward", found.parts["forward"]),
            {"forward_s": 1.0, "forward_q1_s": 1.0, "forward_q3_s": 1.0},
        )
        self.assertEqual(columns_of(found)["samples"], 6)


class Card:
    """A host that launches kernels into a queue, and a device that works it off, each with its
    own time."""

    def __init__(self, launch_seconds, room=1024):
        self.host = self.device = 0.0
        self.launch_seconds, self.room = launch_seconds, room
        self.ends = []  # of kernels
        self.slept = 0.0

    def launch(self, seconds):
        self.host += self.launch_seconds
        if len(self.ends) >= self.room:
            self.host = max(self.host, self.ends[-self.room])
        self.device = max(self.host, self.device) + seconds
        self.ends.append(self.device)

    def sleep(self, seconds):
        self.slept += seconds
        self.launch(seconds)

    def event(self):
        return Place(self, max(self.host, self.device))

    def synchronize(self):
        self.host = max(self.host, self.device)

    def now(self):
        return self.host

    def clock_MHz(self):
        return None

    power_W = clock_MHz


class Place:
    def __init__(self, card, time):
        self.card, self.time = card, time

    def passed(self):
        return self.time <= self.card.host

    def seconds_until(self, later):
        return later.time - self.time


class Gates(unittest.TestCase):
    def measure(self, card, kernels, seconds, gated=True):
        def run(mark):
            mark("begin")
            for _ in range(kernels):
                card.launch(seconds)
            mark("forward")

        rule = StopRule(fewest=20, least_seconds=0.0, spread=0.01, last=20, most_seconds=60.0)
        windows = Windows(card, run, gated, now=card.now)
        return series(windows.take, rule, now=card.now)

    def test_what_launching_takes_counts_for_nothing(self):
        for launch, kernels, seconds in (
            (5e-6, 60, 50e-6),  # the device lags behind by itself
            (20e-6, 60, 5e-6),  # the host is four times as slow
            (1e-3, 40, 5e-6),  # and two hundred times
            (10e-6, 700, 2e-6),  # more kernels than two samples' fit into the queue
        ):
            found = self.measure(Card(launch), kernels, seconds)
            self.assertEqual(found.verdict, "steady")
            self.assertAlmostEqual(found.total.median / (kernels * seconds), 1, places=9)
            self.assertAlmostEqual(found.total.third_quartile / (kernels * seconds), 1, places=9)

    def test_without_a_gate_it_counts(self):
        found = self.measure(Card(20e-6), 60, 5e-6, gated=False)
        self.assertGreater(found.total.median, 60 * 19e-6)
        self.assertAlmostEqual(found.launch_seconds, 60 * 20e-6, places=12)

    def test_a_device_that_lags_behind_is_hardly_held_up(self):
        card = Card(5e-6)
        found = self.measure(card, 60, 50e-6)
        self.assertLess(card.slept, 0.2 * found.total.count * found.total.median)

    def test_a_host_that_never_gets_ahead(self):
        with self.assertRaisesRegex(RuntimeError, "did not wait"):
            self.measure(Card(1.0), 60, 5e-6)


if __name__ == "__main__":
    unittest.main()
