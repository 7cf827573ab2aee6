"""Starts are compared with the unit of the same turn."""

from pathlib import Path

import pytest

from benchmarks.start import UNIT, seconds_of, starts, table_of


def test_ratios_are_those_of_turns() -> None:
    found = {UNIT: [1.0, 2.0, 4.0], "start": [0.5, 1.0, 2.0]}
    assert table_of(found).splitlines()[-1] == "| start | 1.00 | 0.50 |"


def test_a_start_that_fails_is_no_measurement() -> None:
    assert seconds_of(("-c", "pass")) > 0
    with pytest.raises(RuntimeError, match="ended with 3"):
        seconds_of(("-c", "raise SystemExit(3)"))
    assert all(arguments for arguments in starts(Path("run")).values())
