from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pandas as pd
import pytest

from hvdprof.analyze.steps.disturbed_turns import counted_turns, in_counted_turns, turns_by_launch
from hvdprof.model.run import Run
from hvdprof.model.tables.run_tables import RANKS, TURNS
from hvdprof.model.tables.scaling_tables import JOB_STEPS

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


def _run(turns: pd.DataFrame, *, num_cores: int = 2) -> Run:
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
    counted = counted_turns(_run(turns, **machine))
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
    turns = counted_turns(_run(_turns(np2=[0.0, 0.9, 0.0])))
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
    assert in_counted_turns(steps, counted_turns(_run(TURNS.empty()))) is steps
