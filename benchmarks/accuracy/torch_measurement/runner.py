"""Measures one thing after the other: nothing twice, and on after what does not fit or fails."""

import sys
import time


class OutOfMemory(Exception):
    """The device has too little memory for what was to be measured."""

    def __init__(self, columns=None):
        super().__init__("out of memory")
        self.columns = {} if columns is None else columns  # what is known of it all the same


class DeviceLost(Exception):
    """The device answers nothing any more in this process."""


class NoKernel(Exception):
    """This version of PyTorch has no kernel for what was to be measured."""


class Progress:
    """A bar of tqdm where there is one and a person to see it, else a line for each row."""

    def __init__(self, total, what, stream=None):
        self._stream = stream or sys.stderr
        self._total, self._what, self._done = total, what, 0
        self._bar = None
        if total and self._stream.isatty():
            try:
                from tqdm import tqdm

                self._bar = tqdm(total=total, desc=what, file=self._stream)
            except ImportError:
                pass

    def step(self, text):
        self._done += 1
        if self._bar is not None:
            self._bar.set_postfix_str(text)
            self._bar.update()
        else:
            print(f"{self._what} {self._done}/{self._total}  {text}", file=self._stream, flush=True)

    def say(self, text):
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            print(text, file=self._stream, flush=True)

    def close(self):
        if self._bar is not None:
            self._bar.close()


def one_line(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def run(items, file, measure, facts, progress, until=None, now=time.monotonic):
    """Appends a row for each item that the file does not have; returns the ids that failed.

    `measure(item)` returns the measured columns, or whole rows where an item has several, the first
    under its own id. What runs out of memory is a row with fits=0; what this version has no kernel
    for is named, has no row, and did not fail; what fails otherwise is named, has no row, and is
    measured when the program runs again. Nothing is begun after the time `until`.
    """
    failed = []
    for item in items:
        if item.id in file.ids:
            continue
        if until is not None and now() >= until:
            progress.say("the time is over: run again to measure the rest")
            break
        begin = now()
        try:
            measured = measure(item)
            if isinstance(measured, dict):
                measured = {"fits": 1, **measured}
        except OutOfMemory as error:
            measured = {**error.columns, "fits": 0}
        except NoKernel as error:
            progress.say(f"no kernel: {item.id}: {error}")
            continue
        except DeviceLost:
            raise
        except Exception as error:  # whatever it is, the next may do
            failed.append(item.id)
            progress.say(f"failed: {item.id}: {one_line(error)}")
            continue
        if isinstance(measured, dict):
            file.append({**item.columns(), **facts, **measured})
        else:
            for row in measured[1:] + measured[:1]:  # an item is whole once its first is there
                if row["id"] not in file.ids:
                    file.append({**facts, **row})
        outcome = "" if not isinstance(measured, dict) or measured["fits"] else ", out of memory"
        progress.step(f"{item.id}  {now() - begin:.1f} s{outcome}")
    return failed
