import pytest

from hvdprof.launch.run.measured_cells import cells_without_result, num_failed
from hvdprof.rundir.manifest import PassRecord, SegmentRecord
from tests.builders.training_job import segment


def _passes(mode: str, *statuses: str, size: int = 2, session: int | None = None):
    return [
        PassRecord(
            id=f"{number:02d}-{mode}",
            mode=mode,
            size=size,
            repeat=number,
            controller="mpi",
            oversubscribed=False,
            pinned=False,
            segments=[SegmentRecord(segment=segment("mnist"), status=status)],
            session=session,
        )
        for number, status in enumerate(statuses, start=1)
    ]


@pytest.mark.parametrize(
    ("throughput", "lacking"),
    [
        (["done"], 0),
        (["failed"], 1),
        (["partial"], 1),
        (["done", "done", "failed"], 0),
        (["done", "failed"], 1),
        (["done", "failed", "failed"], 1),
        (["done", "done", "partial", "failed"], 0),
        (["planned", "planned"], 0),
    ],
)
def test_a_cell_needs_as_many_launches_as_an_interval(throughput: list[str], lacking: int) -> None:
    assert cells_without_result(_passes("throughput", *throughput)) == lacking


def test_a_trace_that_fails_leaves_the_number_and_is_all_where_nothing_else_is_planned() -> None:
    trace = _passes("trace", "failed")
    assert cells_without_result([*_passes("throughput", "done"), *trace]) == 0
    assert cells_without_result(trace) == 1
    assert num_failed([*_passes("throughput", "done"), *trace]) == 1


def test_every_cell_counts_by_itself() -> None:
    passes = [*_passes("throughput", "failed"), *_passes("throughput", "done", size=4)]
    assert cells_without_result(passes) == 1


def test_an_elastic_job_has_no_other_launch_that_stands_for_a_failure() -> None:
    sessions = _passes("throughput", "done", "done", "failed", session=1)
    assert cells_without_result(sessions) == 1
