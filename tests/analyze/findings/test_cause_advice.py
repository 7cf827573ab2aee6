import pytest

from hvdprof.analyze.findings.cause_advice import explains, num_ranks_delayed
from hvdprof.analyze.steps.other_load import OtherLoad

BUSY = OtherLoad(num_cores=2, num_launches=1, num_busy=1, most_cores=0.55, taken_cores=0.4)


def row(term: str = "straggler", ranks: str = "1", **values: object) -> dict[str, object]:
    at = {"np": 2, "pattern": "", "phase": "forward", "share": 0.41}
    return {"term": term, "ranks": ranks, **at, **values}


def test_a_load_is_compared_with_the_loss_of_the_ranks_that_have_it() -> None:
    assert explains(BUSY, row())
    assert explains(BUSY, row("jitter", "", share=0.8))
    # Of both ranks it is 0.82, and half of that is more than the load took.
    assert not explains(BUSY, row("compute-inflation", ""))
    assert explains(BUSY, row("compute-inflation", "", share=0.4))


@pytest.mark.parametrize(
    ("pattern", "phase", "can_be"),
    [
        ("irregular", "forward", True),
        ("periodic", "forward", False),
        ("irregular", "before_update", False),
    ],
)
def test_what_follows_the_steps_of_the_job_is_its_own(
    pattern: str, phase: str, can_be: bool
) -> None:
    assert explains(BUSY, row(pattern=pattern, phase=phase)) == can_be


@pytest.mark.parametrize(
    ("term", "ranks", "expected"),
    [
        ("straggler", "1", 1),
        ("straggler", "0, 1", 2),
        ("straggler", "any", 1),
        ("jitter", "", 1),
        ("pause", "all", 2),
        ("compute-inflation", "", 2),
        ("exposed-transfer", "", 2),
        ("input-bound", "1", 1),
    ],
)
def test_the_ranks_that_must_lose_time(term: str, ranks: str, expected: int) -> None:
    assert num_ranks_delayed(row(term, ranks)) == expected
