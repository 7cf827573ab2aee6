from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from hvdprof.analyze.steps.other_load import (
    OtherLoad,
    counted_turns,
    host_condition_warnings,
    in_counted_turns,
    other_load,
    passing_core_losses,
    turns_by_launch,
)
from hvdprof.model.notes import texts
from hvdprof.model.run import Run
from hvdprof.model.tables.run_tables import RANKS, SEGMENTS, TURNS
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import manifest, pass_record, run

NAN = float("nan")


def _turns(**other_cores: list[float]) -> pd.DataFrame:
    """Turns of 10 steps, the first measured one number 6, of the segment ``s`` of each pass."""
    rows = [
        {
            "pass_id": pass_id,
            "segment": "s",
            "round": number,
            "first_step": 6 + 11 * number,
            "num_steps": 10,
            "dur_ns": 10**9,
            "other_cores": other,
            "steal_share": 0.0,
        }
        for pass_id, values in other_cores.items()
        for number, other in enumerate(values)
    ]
    return TURNS.frame(rows)


def _run_of_turns(turns: pd.DataFrame, *, num_cores: int = 2) -> Run:
    """Passes named after their number of ranks, of one thread each."""
    sizes = {"np1": 1, "np2": 2}
    ranks = [
        dict.fromkeys(RANKS.column_names, 0)
        | {"pass_id": name, "rank": rank, "num_threads": 1, "hostname": "h", "device": "cpu"}
        for name, size in sizes.items()
        for rank in range(size)
    ]
    run = SimpleNamespace(
        ranks=RANKS.frame(ranks),
        manifest=SimpleNamespace(hosts=[{"num_cores": num_cores}]),
        table=lambda _: turns,
        folder=Path(),
    )
    return cast(Run, run)


def _counted(turns: pd.DataFrame, **machine: int) -> dict[str, list[int]]:
    counted = counted_turns(_run_of_turns(turns, **machine))
    return {
        str(name): rows["round"].tolist()
        for name, rows in counted.groupby("pass_id", observed=True)
    }


def test_turns_with_competition_for_the_cores_are_left_out() -> None:
    turns = _turns(np2=[0.02, 0.9, 0.1, 0.5], np1=[0.3, 0.3, 1.2, 0.0])
    # np=1 leaves a core free, of which other processes may use a quarter.
    assert _counted(turns) == {"np1": [0, 1, 3], "np2": [0, 2]}
    assert _counted(turns, num_cores=8) == {"np1": [0, 1, 2, 3], "np2": [0, 1, 2, 3]}


@pytest.mark.parametrize("other", [[0.9, 0.9, 0.9], [0.0, 0.9, 0.9], [NAN, NAN, NAN]])
def test_a_launch_without_two_undisturbed_turns_keeps_all(other: list[float]) -> None:
    assert _counted(_turns(np2=other)) == {"np2": [0, 1, 2]}


def test_steps_outside_the_counted_turns_are_dropped() -> None:
    turns = counted_turns(_run_of_turns(_turns(np2=[0.0, 0.9, 0.0])))
    numbers = [*range(6, 16), *range(17, 27), *range(28, 38)]
    steps = JOB_STEPS.frame(
        [
            {
                "pass_id": name,
                "segment": "s",
                "step": step,
                "end_ns": 0,
                "dur_ns": 1,
                "num_steps": 1,
                "steady": True,
            }
            for name in ("np2", "alone")
            for step in numbers
        ]
    )
    counted = in_counted_turns(steps, turns)
    by_pass = {str(name): rows for name, rows in counted.groupby("pass_id", observed=True)["step"]}
    assert by_pass["np2"].tolist() == [*range(6, 16), *range(28, 38)]
    assert by_pass["alone"].tolist() == numbers
    assert turns_by_launch(turns) == {("np2", "s"): 2}


def test_a_run_without_turns_keeps_its_steps() -> None:
    steps = JOB_STEPS.empty()
    assert in_counted_turns(steps, counted_turns(_run_of_turns(TURNS.empty()))) is steps


def _run(
    *passes: dict[str, Any],
    threads: tuple[int, ...] = (1, 1),
    host: dict[str, Any] | None = None,
) -> Run:
    """A run on node1 with 2 cores, whose only recorded pass has a rank per entry of ``threads``."""
    records = [
        pass_record(f"p{number}", [], **values) for number, values in enumerate(passes or ({},))
    ]
    ranks = [
        {"pass_id": "p0", "rank": rank, "hostname": "node1", "num_threads": number}
        for rank, number in enumerate(threads)
    ]
    here = {"hostname": "node1", "num_cores": 2} | (host or {})
    return run(manifest=manifest(passes=records, hosts=[here]), ranks=declared_rows(RANKS, *ranks))


def _warnings(*passes: dict[str, Any], **values: Any) -> list[str]:
    return list(texts(host_condition_warnings(_run(*passes, **values))))


def test_an_idle_host_has_no_warning() -> None:
    assert _warnings({"other_cpu_cores": 0.1, "steal_share": 0.01}) == []
    assert _warnings() == []


def test_other_processes_in_the_worst_pass() -> None:
    passes = ({"other_cpu_cores": 0.2}, {"other_cpu_cores": 0.3}, {"other_cpu_cores": 0.6})

    assert _warnings(*passes) == [
        "Other processes kept cores busy during 2 of 3 passes, up to 0.6 cores in p2."
    ]


def test_cores_taken_by_the_hypervisor_in_the_worst_pass() -> None:
    passes = ({"steal_share": 0.12}, {"steal_share": 0.02}, {"steal_share": None})

    assert _warnings(*passes) == [
        "The hypervisor took cores away during 1 of 3 passes, at most 12.0 % of the time in p0."
    ]


def test_unequal_threads() -> None:
    assert _warnings(threads=(1, 2, 2)) == [
        "Ranks computed with 1 or 2 threads: cells with different threads per rank cannot be "
        "compared."
    ]
    # 0 is unknown, not a number of threads.
    assert _warnings(threads=(0, 2)) == []


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


def test_losses_that_windows_show_to_last_are_left_out() -> None:
    def row(rank: int, measure: str, **values: float) -> dict[str, object]:
        return {"pass_id": "p", "segment": "s", "rank": rank, "measure": measure, **values}

    table = declared_rows(
        RANK_MACHINE,
        row(0, "core_wait", mean=0.2, others=0.5, chance=0.5),
        row(1, "core_wait", mean=0.5, others=0.2, chance=0.5),
        row(2, "core_wait", mean=0.5, others=0.2, chance=0.001),
        *(row(rank, "main_thread", mean=0.4, others=0.8) for rank in range(3)),
    )
    (losses,) = passing_core_losses(table).values()

    # 0.4 that ran take 0.8 with half of them without a core, and 0.5 with a fifth.
    assert losses == pytest.approx({0: -0.3, 1: 0.3})
    assert passing_core_losses(RANK_MACHINE.empty()) == {}
    # Beyond what the others run as well it is work of the rank, which waits for its core, too.
    table.loc[table["measure"] == "main_thread", "others"] = 0.1
    assert passing_core_losses(table)["p", "s"] == pytest.approx({0: -0.075, 1: 0.075})
