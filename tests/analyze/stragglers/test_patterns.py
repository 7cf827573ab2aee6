import numpy as np

from hvdprof.analyze.stragglers.named_cause import IRREGULAR, PERSISTENT, STRAGGLER
from hvdprof.analyze.stragglers.patterns import named_causes
from tests.builders.step_works import simulated


def test_ranks_alike_are_one_cause() -> None:
    extra = np.array([0, 0, 20.0, 20.0])

    (cause,) = named_causes(simulated(100, 4, extra_ms={"backward": extra}))

    assert (cause.kind, cause.ranks, cause.phase) == (STRAGGLER, (2, 3), "backward")
    assert (cause.pattern, cause.num_events) == (PERSISTENT, 99)
    assert cause.affected[1:].all(axis=0).tolist() == [False, False, True, True]


def test_a_rank_late_now_and_then_is_irregular() -> None:
    extra = np.zeros((100, 8))
    extra[5::20, 1] = 200.0

    (cause,) = named_causes(simulated(100, 8, extra_ms={"backward": extra}))

    assert (cause.ranks, cause.phase, cause.pattern) == ((1,), "backward", IRREGULAR)
    assert np.flatnonzero(cause.affected[:, 1]).tolist() == [5, 25, 45, 65, 85]


def test_a_clean_launch_names_nothing() -> None:
    assert named_causes(simulated(100, 4)) == ()
    assert named_causes(simulated(100, 1)) == ()
