import pytest

from hvdprof.collect.standing import IN_LOOP, LEFT_LOOP
from hvdprof.launch.diagnose.watch_state import WatchState, unequal_batches


def state(rank: int, **values: object) -> WatchState:
    """A rank that waits in the reduction of its 40th step, unless values say otherwise."""
    known: dict[str, object] = {
        "rank": rank,
        "pid": 40 + rank,
        "hostname": "node1",
        "still_s": 20.0,
        "in_step_s": 20.0,
        "segment": "main",
        "step": 39,
        "is_open": True,
        "waits": True,
        "collective": "the reduction of gradients",
        "phase": "",
        "ready": ["a"],
        "ended": False,
        "failed": False,
        "loop": IN_LOOP,
        "num_updates": 39,
        "num_epochs": 0,
    }
    return WatchState(**(known | values))


BEHIND = {"loop": LEFT_LOOP, "waits": False, "num_epochs": 1}


def test_a_rank_behind_its_loop_has_fewer_batches_than_one_that_waits_in_it() -> None:
    found = unequal_batches({0: state(0), 1: state(1, **BEHIND), 2: state(2)})
    assert found is not None
    assert (found.ended, found.num_steps) == ([1], 39)
    assert (found.waiting, found.step) == ([0, 2], 40)
    assert found.past() == (
        "rank 1 had ended the training loop after 39 steps, ranks 0 and 2 were in step 40"
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"waits": True, "collective": "barrier"}, "it waits in another collective"),
        ({"ended": True, "num_epochs": 0, "still_s": 0.0}, "its process has ended"),
    ],
)
def test_a_rank_behind_its_loop_may_wait_or_have_ended(change: dict[str, object], why: str) -> None:
    assert unequal_batches({0: state(0), 1: state(1, **(BEHIND | change))}) is not None, why


def test_a_rank_that_lost_its_peer_was_in_a_step() -> None:
    failed = state(0, ended=True, failed=True, waits=False, still_s=0.0, in_step_s=0.0)
    gone = state(1, **BEHIND, ended=True)
    assert unequal_batches({0: failed, 1: gone}) is not None


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({"num_epochs": 1}, BEHIND, "rank 1 evaluates alone, rank 0 waits in the next epoch"),
        ({}, BEHIND | {"num_epochs": 0}, "the ends of epochs are unknown"),
        ({}, BEHIND | {"num_updates": 41}, "rank 1 has done more steps"),
        ({}, BEHIND | {"failed": True, "ended": True}, "rank 1 has raised"),
        ({}, BEHIND | {"still_s": 0.0, "in_step_s": 0.0}, "what rank 1 wrote is old"),
        ({"waits": False}, BEHIND, "rank 0 does not wait"),
        ({"loop": LEFT_LOOP}, BEHIND, "both are behind the loop"),
        ({}, {"loop": IN_LOOP}, "both are inside"),
        ({"loop": ""}, BEHIND | {"loop": ""}, "the loop is unknown"),
    ],
)
def test_other_ranks_have_as_many_batches(
    first: dict[str, object], second: dict[str, object], why: str
) -> None:
    assert unequal_batches({0: state(0, **first), 1: state(1, **second)}) is None, why
