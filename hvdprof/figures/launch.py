"""What of a table a figure draws: a launch, its steps, and few rows of many."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.model.arrays import Int64s
from hvdprof.model.cell_key import (
    DDP_ENGINE,
    LAUNCH,
    LaunchKey,
    finished_launches,
    has_no_toggles,
    setting_of_row,
)
from hvdprof.model.run import Run

_CELL = ["mode", "engine", "model", "size", "compression", "reduction"]
_PREFERRED = ("throughput", "trace", "attribution")


def launches_in(table: pd.DataFrame) -> list[LaunchKey]:
    """The launches (pass_id, segment) with rows in a table, in their order."""
    passes, segments = (pd.factorize(table[name]) for name in LAUNCH)
    both = passes[0].astype(np.int64) * (len(segments[1]) + 1) + segments[0]
    firsts = pd.Series(both).drop_duplicates().index
    found = table[LAUNCH].iloc[firsts].astype(str)
    return list(found.itertuples(index=False, name=None))


def rows_of_launch(table: pd.DataFrame, launch: LaunchKey | None) -> pd.DataFrame:
    """The rows of one launch; none where there is no launch."""
    if launch is None:
        return table.iloc[:0]
    is_there = (table["pass_id"] == launch[0]) & (table["segment"] == launch[1])
    return table[is_there.to_numpy(dtype=bool)]


def rows_of_cell(segments: pd.DataFrame, table: pd.DataFrame, launch: LaunchKey) -> pd.DataFrame:
    """The rows of all launches of the same cell in the same mode as this one.

    Args:
        segments: SEGMENTS; without this launch in it, only the rows of the launch are returned.
        table: Any table with pass_id and segment.
        launch: The launch.
    """
    own = rows_of_launch(segments, launch)
    if own.empty:
        return rows_of_launch(table, launch)
    alike = segments.astype(dict.fromkeys(_CELL, str)).merge(own[_CELL].astype(str), on=_CELL)
    names = dict.fromkeys(LAUNCH, str)
    return table.astype(names).merge(alike[LAUNCH].astype(names).drop_duplicates(), on=LAUNCH)


def opening_launch(
    segments: pd.DataFrame,
    table: pd.DataFrame,
    model: str = "",
    num_ranks: int = 0,
    setting: str = "",
) -> LaunchKey | None:
    """The default launch of a table; None without any.

    That is the first of the given model, of these at the number of ranks, of these with the
    setting, else without toggles; preferably in throughput mode; otherwise the first without
    toggles and with the most ranks. A failed launch is chosen only where the cell has no other.

    Args:
        segments: SEGMENTS.
        table: Any table with pass_id and segment.
        model: Model of the cell, such as that of the verdict.
        num_ranks: Its number of ranks.
        setting: Its engine and toggles, as ``cell_key.setting_name`` writes them.
    """
    found = launches_in(table)
    rows = {(str(row["pass_id"]), str(row["segment"])): row for row in segments.to_dict("records")}
    finished = set(finished_launches(segments))
    order = {mode: place for place, mode in enumerate(_PREFERRED)}

    def badness(launch: LaunchKey) -> tuple[bool | int, ...]:
        row = rows.get(launch)
        if row is None:
            return (True, True, True, True, 0, True, len(order))
        is_plain = has_no_toggles(row) and row["engine"] != DDP_ENGINE
        mode = order.get(str(row["mode"]), len(order))
        return (
            row["model"] != model,
            row["size"] != num_ranks,
            bool(setting) and setting_of_row(row) != setting,
            not is_plain,
            -int(row["size"]),
            launch not in finished,
            mode,
        )

    return min(found, key=badness, default=None)


def launch_label(segments: pd.DataFrame, launch: LaunchKey) -> str:
    """Label of a launch, ``resnet18 np=2, fp16 (05-np2-throughput-r2)``."""
    own = rows_of_launch(segments, launch)
    if own.empty:
        return " ".join(part for part in launch if part)
    row = own.iloc[0]
    return f"{row['model']} np={row['size']}, {setting_of_row(row)} ({launch[0]})"


@dataclass(frozen=True, slots=True)
class LaunchSteps:
    """All steps of a launch, those that do not count included.

    ``table`` has step, ``dur_ns``, ``num_steps``, ``steady`` and ``why`` a step is excluded.
    ``mean_ns`` is the mean step of the job in the steady state, NaN where unknown.
    """

    launch: LaunchKey
    label: str
    table: pd.DataFrame
    mean_ns: float

    @property
    def num_steps(self) -> int:
        """Number of recorded steps."""
        return int(self.table["num_steps"].sum())


def num_steady(steps: pd.DataFrame) -> int:
    """Steps that results use, of JOB_STEPS or ``LaunchSteps``; a window stands for several."""
    return int(steps.loc[steps["steady"].astype(bool), "num_steps"].sum())


def launch_steps(
    run: Run, job_steps: pd.DataFrame, launches: pd.DataFrame, launch: LaunchKey
) -> LaunchSteps:
    """The steps of a launch.

    Args:
        run: The run, whose STEPS hold the warm-up and the first steps of turns, too.
        job_steps: JOB_STEPS of the run, which lack them.
        launches: LAUNCHES of the run.
        launch: The launch.
    """
    table = with_excluded(rows_of_launch(job_steps, launch), rows_of_launch(run.steps, launch))
    means = rows_of_launch(launches, launch)["step_time_ns"]
    label = launch_label(run.segments, launch)
    return LaunchSteps(launch, label, table, float(means.iloc[0]) if len(means) else math.nan)


def step_names(first: Int64s, size: Int64s) -> list[str]:
    """``step 7``, or of a window or a bin ``steps 7 to 14, mean``, by first step and size."""
    return [
        f"step {units.count(one)}"
        if number == 1
        else f"steps {units.count(one)} to {units.count(one + number - 1)}, mean"
        for one, number in zip(first.tolist(), size.tolist(), strict=True)
    ]


def with_excluded(job_steps: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Step, ``dur_ns``, ``num_steps``, ``steady`` and, of an excluded step, ``why``; by step.

    Args:
        job_steps: Rows of JOB_STEPS of one launch, which lack the warm-up and begins of turns.
        steps: Its rows of STEPS; a step that does not count is as long as on its longest rank.
    """
    left_out = steps[~steps["step"].isin(job_steps["step"]).to_numpy()]
    columns = ["dur_ns", "num_steps", "warmup"]
    longest = left_out.groupby("step", as_index=False)[columns].max().assign(steady=False)
    both = pd.concat([job_steps[["step", "dur_ns", "num_steps", "steady"]], longest])
    both = both.sort_values("step", ignore_index=True)
    steady, of_job = both["steady"].to_numpy(dtype=bool), both["warmup"].isna().to_numpy()
    warm = both["warmup"].eq(True).to_numpy()
    is_before = both["step"].lt(both.loc[steady, "step"].min()).to_numpy() & (warm | of_job)
    reasons = "", "warm-up", "warm-up of a turn, or evaluation", "not in the steady state"
    why = np.select([steady, is_before, warm, of_job], reasons, "not recorded on all ranks")
    return both.drop(columns="warmup").assign(steady=steady, why=why)


def bin_starts(num_values: int, most_bins: int) -> NDArray[np.int64]:
    """Start of each of at most ``most_bins`` bins of consecutive values, of even length."""
    if num_values <= most_bins:
        return np.arange(num_values, dtype=np.int64)
    return np.unique(np.linspace(0, num_values, most_bins, endpoint=False).astype(np.int64))


def bin_means(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean of each bin, [bins, ...]."""
    if not len(starts):
        return values[:0]
    lengths = np.diff(starts, append=len(values))
    sums = np.add.reduceat(values, starts, axis=0)
    return np.asarray(sums / lengths.reshape(-1, *([1] * (values.ndim - 1))))


def bin_largest(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The largest value of each bin, [bins, ...]."""
    if not len(starts):
        return values[:0]
    return np.asarray(np.maximum.reduceat(values, starts, axis=0))


_CANDIDATES_OF_EACH = 200


def largest_of_each(table: pd.DataFrame, value: str, by: Sequence[str], most: int) -> pd.DataFrame:
    """The rows with the largest values, largest first, one for each combination of ``by``.

    Args:
        table: Any table.
        value: Name of the column to sort by; it has no missing values.
        by: Columns of the group; each combination is returned once, with its largest row.
        most: How many rows to return.
    """
    values = table[value].to_numpy(dtype=np.int64)
    num = most * _CANDIDATES_OF_EACH
    while True:
        candidates = (
            np.arange(len(values)) if num >= len(values) else np.argpartition(-values, num)[:num]
        )
        order = candidates[np.lexsort((candidates, -values[candidates]))]
        found = table.iloc[order].drop_duplicates(list(by)).head(most)
        # Where one group holds nearly all of them, more candidates are needed.
        if len(found) == most or num >= len(values):
            return found.reset_index(drop=True)
        num *= 10


def mean_waits(arrivals: pd.DataFrame) -> pd.DataFrame:
    """Wait by tensor, longest first: tensor, wait_ns (per step, all ranks), most_last and share.

    ``most_last`` is the rank that is last most often, ``most_last_share`` its share of the steps.
    """
    grouped = arrivals.groupby("tensor", sort=False, observed=True)
    last = (
        arrivals.groupby(["tensor", "last_rank"], sort=False, observed=True)
        .size()
        .rename("times")
        .reset_index()
        .sort_values("times", ascending=False, kind="stable")
        .drop_duplicates("tensor")
        .set_index("tensor")
    )
    table = pd.DataFrame({"wait_ns": grouped["wait_sum_ns"].mean(), "steps": grouped.size()})
    table["most_last"] = last["last_rank"]
    table["most_last_share"] = last["times"] / table["steps"]
    ordered = table.sort_values("wait_ns", ascending=False, kind="stable")
    return ordered.drop(columns="steps").rename_axis("tensor").reset_index().astype({"tensor": str})


def longest_stalls(arrivals: pd.DataFrame, most: int = 10) -> pd.DataFrame:
    """The longest wait from the first rank to the last in each step, longest first.

    Columns: step, tensor, wait_ns, last_rank, decided.

    Args:
        arrivals: COLLECTIVE_ARRIVALS of one launch.
        most: How many to return.
    """
    waits = arrivals.assign(wait_ns=arrivals["last_ns"] - arrivals["first_ns"])
    columns = ["step", "tensor", "wait_ns", "last_rank", "decided"]
    return largest_of_each(waits[columns], "wait_ns", ["step"], most)
