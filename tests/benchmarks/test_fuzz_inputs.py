"""A few mutants of each kind; `benchmarks/fuzz_inputs.py` runs thousands."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fuzz_inputs import BOTH_PATHS, MOST_CPU_S, Ended, Tally
from tests.builders.fuzz_seeds import KINDS
from tests.builders.places import ROOT

pytestmark = pytest.mark.slow


HAS_COMPILER = importlib.util.find_spec("numba") is not None
EVERY = [*KINDS, *([BOTH_PATHS] if HAS_COMPILER else [])]


# What commands import is imported once a process: half of the kinds on each of two cores.
@pytest.mark.parametrize("kinds", [EVERY[::2], EVERY[1::2]], ids=["even", "odd"])
def test_damaged_inputs_end_in_a_result_or_in_one_message(kinds: list[str], tmp_path: Path) -> None:
    # In a process of its own: mutants are forks, whose memory counts that of their parent.
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.fuzz_inputs", "--mutants", "6", "--seed", "7"),
            *(word for kind in kinds for word in ("--kind", kind)),
            *("--failures", str(tmp_path / "failures")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for kind in kinds:
        assert f"| {kind} | 6 |" in ended.stdout


@pytest.mark.skipif(not HAS_COMPILER, reason="the compiled path needs numba")
def test_both_paths_of_reading_are_among_the_kinds() -> None:
    assert BOTH_PATHS in EVERY


def test_what_counts_as_a_failure() -> None:
    traceback = "Traceback (most recent call last):\nValueError: x\n"
    warning = "/a/b.py:7: RuntimeWarning: overflow\n"
    refused = 3 << 8
    cases = {
        "traceback": (refused, traceback, 1.0, 1),
        "no message": (refused, "", 1.0, 1),
        "slow": (0, "", MOST_CPU_S + 1, 1),
        "large": (0, "", 1.0, 10**9),
        "ended by SIGKILL": (9, "", 1.0, 1),
        "": (refused, "hvdprof: damaged.\n", 1.0, 1),
    }
    tally = Tally()
    for number, (problem, case) in enumerate(cases.items()):
        assert Ended(*case).problem == problem
        tally.add(number, Ended(*case))
    assert Ended(0, warning, 1.0, 1).problem == "traceback"
    assert tally.row("x").startswith("| x | 6 | 4 | 3 | 1 | 1 |")
    assert len(tally.problems) == 5
