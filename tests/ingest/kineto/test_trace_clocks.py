"""Clocks from the ends of collectives."""

import numpy as np
import pytest

from hvdprof.ingest.kineto.collective_calls import CollectiveCall
from hvdprof.ingest.kineto.trace_clocks import LEAST_COLLECTIVES, clock_shifts
from hvdprof.model.tables.rank_collective_tables import NO_MATCH


def _calls(shift: int, waits: list[int], collective: str = "ALLREDUCE") -> list[CollectiveCall]:
    """One call every 1000 ns that ends 100 ns after the last rank has arrived."""
    return [
        CollectiveCall(
            collective,
            "gloo:all_reduce",
            start_ns=1000 * number - wait + shift,
            end_ns=1000 * number + 100 + shift,
        )
        for number, wait in enumerate(waits)
    ]


IDS = np.arange(4)


def test_the_shift_is_that_of_the_ends_and_its_error_the_transfer() -> None:
    calls = {0: _calls(0, [500] * 4), 3: _calls(7_000_000, [0] * 4)}
    assert clock_shifts(calls, {0: IDS, 3: IDS}) == {3: (-7_000_000, 100)}


def test_one_late_end_moves_nothing() -> None:
    late = _calls(50, [0] * 4)
    late[2] = CollectiveCall("ALLREDUCE", "x", start_ns=2000, end_ns=900_000)
    assert clock_shifts({0: _calls(0, [9] * 4), 1: late}, {0: IDS, 1: IDS})[1][0] == -50


@pytest.mark.parametrize("collective", ["BROADCAST", "SENDRECV"])
def test_collectives_that_a_rank_may_leave_early_relate_nothing(collective: str) -> None:
    calls = {rank: _calls(0, [0] * 4, collective) for rank in (0, 1)}
    assert clock_shifts(calls, {0: IDS, 1: IDS}) == {}


def test_too_few_common_collectives_relate_nothing() -> None:
    few = np.array([0] * LEAST_COLLECTIVES + [NO_MATCH])
    few[:LEAST_COLLECTIVES] = [0, 1, NO_MATCH]
    calls = {rank: _calls(0, [0] * 4) for rank in (0, 1)}
    assert clock_shifts(calls, {0: few, 1: few}) == {}
