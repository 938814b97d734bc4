"""Waiting for events: every wait has a deadline, and says what it waited for when that passes."""
import os
import time

# A sanitizer build is several times slower; the caller stretches every deadline with this.
STRETCH = float(os.environ.get("LEASEHOLD_TEST_STRETCH", "1"))


def until(predicate, seconds, what="the condition", every=0.02):
    """Polls predicate until it is true and returns its value. `what` is text, or a callable that tells the state of things."""
    end = time.monotonic() + seconds * STRETCH
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"not within {seconds * STRETCH:g} s: {what() if callable(what) else what}")
        time.sleep(every)


def always(predicate, seconds, what="the condition", every=0.05):
    """The opposite: predicate has to stay true for so long. For promises that something does not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert predicate(), f"no longer true: {what() if callable(what) else what}"
        time.sleep(every)


def boot_ms():
    """The clock that the daemon, the runner and the handlers' runs log go by."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
