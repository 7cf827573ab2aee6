"""A few mutants of each kind; `benchmarks/fuzz_inputs.py` runs thousands."""

import pytest

from benchmarks.fuzz_inputs import BOTH_PATHS, MOST_CPU_S, Ended, Tally, fuzzed
from tests.builders.fuzz_seeds import KINDS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", [*KINDS, BOTH_PATHS])
def test_damaged_inputs_end_in_a_result_or_in_one_message(kind: str) -> None:
    if kind == BOTH_PATHS:
        pytest.importorskip("numba", reason="the compiled path needs it")
    tally = fuzzed(kind, seed=7, numbers=range(6))
    assert tally.num_mutants == 6
    assert [(number, one.problem, one.stderr) for number, one in tally.problems] == []


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
