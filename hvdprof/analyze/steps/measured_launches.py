"""What every statement on step times starts from: steady steps, launches, cells and their facts."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.steady_state import drift_of, steady_window
from hvdprof.analyze.stats.uncertainty import mean_of
from hvdprof.analyze.steps.cells import Cell, CellTime, cell_times
from hvdprof.analyze.steps.other_load import (
    counted_turns,
    in_counted_turns,
    turns_by_launch,
)
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.model.cell_key import LaunchKey, finished_launches, launch_codes, rows_by_launch
from hvdprof.model.run import Run
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LAUNCHES
from hvdprof.model.tables.window_tables import WINDOWS

PART_COLUMNS = [f"{part}_ns" for part in RECORDED_PARTS]

LIGHT_FLAG = "--light"
_BENCH = "bench"
_FOLDER = ("-o", "--output")
_FOLDER_WITH_VALUE = "--output="
FULL_COMMAND = "hvdprof run --np 1,2,4 -- python train.py"


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """Over the steady steps of one launch.

    ``step_times_ns`` are those of the job; ``parts_ns`` the mean of each of
    ``model.causes.RECORDED_PARTS`` over ranks and steps, NaN where not measured;
    ``samples`` the mean per rank and step, and ``samples_of_ranks`` the smallest and largest mean
    of a rank.
    """

    step_times_ns: NDArray[np.int64]
    parts_ns: Mapping[str, float]
    samples: float
    samples_of_ranks: tuple[float, float]


Facts = Mapping[LaunchKey, LaunchFacts]


def launch_facts(steps: pd.DataFrame, job_steps: pd.DataFrame) -> dict[LaunchKey, LaunchFacts]:
    """The facts of every launch with a steady step."""
    recorded = dict(rows_by_launch(steps))
    ranks = steps["rank"].to_numpy()
    number, steady = (job_steps[name].to_numpy() for name in ("step", "steady"))
    duration = job_steps["dur_ns"].to_numpy()
    recorded_number, warmup = (steps[name].to_numpy() for name in ("step", "warmup"))
    values = steps[[*PART_COLUMNS, "samples"]].to_numpy(dtype=np.float64)
    facts = {}
    for key, rows in rows_by_launch(job_steps):
        counted = rows[steady[rows]]
        if not len(counted):
            continue
        own = recorded[key]
        own = own[np.isin(recorded_number[own], number[counted]) & ~warmup[own]]
        means = values[own].mean(axis=0)
        _, place, counts = np.unique(ranks[own], return_inverse=True, return_counts=True)
        of_ranks = np.bincount(place, values[own, -1]) / counts
        facts[key] = LaunchFacts(
            step_times_ns=duration[counted],
            parts_ns=dict(zip(RECORDED_PARTS, map(float, means), strict=False)),
            samples=float(means[-1]),
            samples_of_ranks=(float(of_ranks.min()), float(of_ranks.max())),
        )
    return facts


@dataclass(frozen=True, slots=True)
class MeasuredLaunches:
    """The launches of a run as its analysis and its stopping rule count them.

    Attributes:
        of_job: JOB_STEPS with ``steady`` set, without the steps of disturbed turns.
        by_launch: LAUNCHES.
        times: The step time of each cell.
        facts: The parts of the step and other facts of each launch.
    """

    of_job: pd.DataFrame
    by_launch: pd.DataFrame
    times: Mapping[Cell, CellTime]
    facts: Facts


def measured_launches(run: Run) -> MeasuredLaunches:
    """The steady steps of each launch, and the step time of each cell from its launches.

    Args:
        run: A run, finished or not.
    """
    turns = counted_turns(run)
    of_job = mark_steady(in_counted_turns(job_steps(run.steps), turns))
    by_launch = launches(of_job, run.segments, turns_by_launch(turns))
    return MeasuredLaunches(
        of_job, by_launch, cell_times(by_launch, run.segments), launch_facts(run.steps, of_job)
    )


def job_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """JOB_STEPS of all recorded segments, with ``steady`` true everywhere.

    A step of the job ends when its last rank ends it: ``e_k = max over ranks``. Its time is
    ``T_k = e_k - e_(k-1)``, so that the times of a launch sum to its wall time. The first step
    after warm-up batches, and after those that begin a turn, has no counted step before it and
    starts at ``max over ranks`` of its start. Steps missing on a recorded rank, and those right
    after one, are omitted. A row of a light recording stands for a window: its time is that of the
    window divided by its number of steps.
    """
    passes, segments, code = launch_codes(steps)
    number, num_steps, warmup, start, length = (
        steps[name].to_numpy() for name in ("step", "num_steps", "warmup", "start_ns", "dur_ns")
    )
    order = np.lexsort((number, code))
    is_new = _is_new(code[order]) | _is_new(number[order])
    first = np.flatnonzero(is_new)
    if not len(first):
        return JOB_STEPS.empty()
    begin, end, size, warm = (
        np.maximum.reduceat(values[order], first)
        for values in (start, start + length * num_steps, num_steps, warmup)
    )
    ranks = np.diff(np.append(first, len(order)))
    starts_launch = _is_new(code[order][first])
    launches = np.flatnonzero(starts_launch)
    most = np.maximum.reduceat(np.where(warm, 0, ranks), launches)
    complete = ranks == np.repeat(most, np.diff(np.append(launches, len(first))))
    is_first = starts_launch | np.append(True, warm[:-1])
    step = number[order][first]
    follows = ~starts_launch & (step == np.roll(step + size, 1)) & np.roll(complete, 1)
    before_ns = np.where(is_first, begin, np.roll(end, 1))
    counted = ~warm & complete & (is_first | follows)
    rows = order[first][counted]
    return JOB_STEPS.frame(
        {
            "pass_id": passes[rows].remove_unused_categories(),
            "segment": segments[rows].remove_unused_categories(),
            "step": step[counted],
            "num_steps": size[counted],
            "end_ns": end[counted],
            "dur_ns": ((end - before_ns) // size)[counted],
            "steady": np.ones(len(rows), dtype=bool),
        }
    )


def _is_new(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each value differs from the one before."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]


def mark_steady(job_steps: pd.DataFrame) -> pd.DataFrame:
    """JOB_STEPS in which ``steady`` is false for the warm-up beyond the counted batches."""
    steady = np.ones(len(job_steps), dtype=bool)
    for _, rows in rows_by_launch(job_steps):
        cut = steady_window(_times(job_steps, rows)).num_cut
        steady[rows[:cut]] = False
    return job_steps.assign(steady=steady)


def launches(
    job_steps: pd.DataFrame,
    segments: pd.DataFrame,
    num_turns: Mapping[LaunchKey, int] = MappingProxyType({}),
) -> pd.DataFrame:
    """LAUNCHES of the finished segments, in the order of the segments.

    Args:
        job_steps: JOB_STEPS, with ``steady`` as ``mark_steady`` sets it.
        segments: SEGMENTS.
        num_turns: The number of counted turns of each launch that took turns.
    """
    rows_of = dict(rows_by_launch(job_steps))
    steady, sizes = (job_steps[name].to_numpy() for name in ("steady", "num_steps"))
    rows = []
    for key in finished_launches(segments):
        if key not in rows_of:
            continue
        measured = rows_of[key]
        counted = measured[steady[measured]]
        times = _times(job_steps, counted)
        mean, drift = mean_of(times), drift_of(times)
        rows.append(
            {
                "pass_id": key[0],
                "segment": key[1],
                "num_steps": int(sizes[counted].sum()),
                "num_cut_steps": int(sizes[measured].sum() - sizes[counted].sum()),
                "num_turns": num_turns.get(key, 0),
                "step_time_ns": mean.value,
                "step_time_error_ns": mean.error,
                "num_effective_steps": mean.num_effective,
                "drift": drift.change,
                "drift_error": drift.error,
                "steady": steady_window(_times(job_steps, measured)).found,
            }
        )
    return LAUNCHES.frame(rows)


def _times(job_steps: pd.DataFrame, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    return job_steps["dur_ns"].to_numpy()[rows].astype(np.float64)


def is_light(run: Run) -> bool:
    """Whether a run holds windows of steps instead of steps."""
    return len(run.table(WINDOWS.name)) > 0


def row_noun(run: Run) -> str:
    """What a row of STEPS is in a sentence: ``windows`` or ``steps``."""
    return "windows" if is_light(run) else "steps"


def full_command(run: Run) -> str:
    """The command of a light run without its flag; an example where the command is unknown.

    It does not name the folder of the light run, which no other run may be written into.
    """
    command = list(run.manifest.command)
    if LIGHT_FLAG not in command:
        return FULL_COMMAND
    # What follows is another program's, which may have options of the same names.
    if "--" in command:
        end = command.index("--")
    else:
        end = len(command) if _BENCH in command[:2] else command.index(LIGHT_FLAG) + 1
    own = [word for word in command[:end] if word != LIGHT_FLAG]
    return shlex.join([*without_folder(own), *command[end:]])


def without_folder(options: Sequence[str]) -> list[str]:
    """Options of ``bench`` or ``run`` without the one that names the run directory."""
    others, is_value = [], False
    for option in options:
        if not is_value and option not in _FOLDER and not option.startswith(_FOLDER_WITH_VALUE):
            others.append(option)
        is_value = option in _FOLDER
    return others
