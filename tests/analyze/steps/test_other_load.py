from collections.abc import Sequence

import pytest

from hvdprof.analyze.steps.other_load import OtherLoad, other_load
from hvdprof.model.tables.run_tables import RANKS, SEGMENTS, TURNS
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import manifest, pass_record, run


def load_beside(
    *others: float | None,
    threads: int = 2,
    num_cores: int = 2,
    turns: Sequence[tuple[int, float]] = (),
) -> OtherLoad:
    """The load in launches beside others that use so many cores.

    ``turns`` are steps and load of each turn of the first launch.
    """
    names = [f"p{number}" for number in range(len(others))]
    records = [
        pass_record(name, [], other_cpu_cores=cores)
        for name, cores in zip(names, others, strict=True)
    ]
    ranks = [
        {"pass_id": name, "rank": rank, "num_threads": 1}
        for name in names
        for rank in range(threads)
    ]
    of_turns = [
        {"pass_id": "p0", "segment": "s", "round": n, "num_steps": steps, "other_cores": cores}
        for n, (steps, cores) in enumerate(turns)
    ]
    hosts = [{"hostname": "node1", "num_cores": num_cores}]
    whole = run(
        manifest=manifest(passes=records, hosts=hosts),
        ranks=declared_rows(RANKS, *ranks),
        turns=declared_rows(TURNS, *of_turns),
    )
    launches = declared_rows(SEGMENTS, *({"pass_id": name, "segment": "s"} for name in names))
    return other_load(whole, launches, threads, num_cores)


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize("idle", [13, 0])
def test_a_fifth_of_a_core_in_one_pass_never_explains_a_quarter_of_the_step(
    idle: int, num_ranks: int
) -> None:
    # 0.249 is the most that a text calls 0.2.
    load = load_beside(0.249, *[0.02] * idle)
    assert (load.num_busy, load.num_launches) == (1, idle + 1)
    assert not load.can_cost(0.26, num_ranks)


def test_a_load_that_takes_most_of_both_cores_explains_a_quarter_of_the_step() -> None:
    load = load_beside(1.7, 1.6, 1.8)
    assert load.taken_cores == pytest.approx(1.55)
    assert load.can_cost(0.26, 1)
    assert load.can_cost(0.26, 2)
    assert load.text == "other processes kept up to 1.8 of 2 cores busy"


@pytest.mark.parametrize(
    ("others", "share", "num_ranks", "explains"),
    [
        (0.65, 0.5, 2, True),  # takes 0.5 cores, half of the loss of 1.0
        (0.64, 0.5, 2, False),
        (0.40, 0.5, 1, True),  # of one rank it is half of 0.5
        (0.39, 0.5, 1, False),
        (1.70, 0.0, 2, False),
        (1.70, -0.2, 2, False),
        (1.70, float("nan"), 2, False),
    ],
)
def test_half_of_the_loss_is_the_boundary(
    others: float, share: float, num_ranks: int, explains: bool
) -> None:
    # 0.15 cores are in use on an idle host, too. The sum of floats is not exact.
    assert load_beside(others + 1e-9).can_cost(share, num_ranks) == explains


def test_no_load_explains_nothing() -> None:
    for load in (load_beside(0.2, 0.1), load_beside(None), load_beside()):
        assert not load.can_cost(0.01, 1)
        assert load.text == ""


def test_a_launch_of_unknown_load_is_left_out() -> None:
    assert load_beside(None, 1.15, None).taken_cores == pytest.approx(1.0)


def test_cores_that_the_ranks_leave_free_are_not_taken_from_them() -> None:
    assert load_beside(5.9, num_cores=8).num_busy == 0
    busy = load_beside(6.5, num_cores=8)
    assert busy.taken_cores == pytest.approx(0.5)
    assert busy.text == "other processes kept up to 6.5 of 8 cores busy"
    # The cores of the host are unknown.
    assert load_beside(3.0, num_cores=0).num_busy == 0


def test_a_load_in_one_of_many_launches_explains_a_part_of_their_mean() -> None:
    load = load_beside(1.9, *[0.02] * 9)
    assert load.taken_cores == pytest.approx(0.175)
    assert load.can_cost(0.15, 2)
    assert not load.can_cost(0.26, 2)
    assert load.text == "other processes kept up to 1.9 of 2 cores busy in 1 of 10 launches"


def test_a_load_in_turns_that_are_left_out_explains_nothing() -> None:
    disturbed = [(10, 0.05), (10, 0.1), (10, 1.9)]
    assert load_beside(0.7, turns=disturbed).num_busy == 0
    # With too few undisturbed turns all of them count, by their steps.
    every = load_beside(0.7, turns=[(10, 0.05), (30, 1.65)])
    assert every.most_cores == pytest.approx(1.25)
    assert every.taken_cores == pytest.approx(1.1)
