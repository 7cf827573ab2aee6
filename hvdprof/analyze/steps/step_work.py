"""The steps of a launch as arrays [steps, ranks]: own work, waiting, and release of each rank.

A rank computes (data, forward, backward), waits in ``synchronize()`` until all gradients are
reduced, and updates its parameters. All ranks are released together, so the time between two
releases without the wait is a rank's own time and comparable between ranks. Where a step has
several such waits (FSDP2), the arrays sum them up, and ``points`` holds each of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.steps.sync_points import StepGrid, SyncPoints, sync_points
from hvdprof.model.arrays import Bools
from hvdprof.model.cell_key import LAUNCH, LaunchKey, rows_by_launch

OWN_PARTS: tuple[str, ...] = ("data", "forward", "backward", "before_update", "optimizer")
"""The parts of a rank's own work; ``blocked`` is waiting, ``outside`` is outside all phases."""

Times = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepWork:
    """Steady steps of one launch; times in ns, arrays [steps, ranks] unless said otherwise.

    ``own_before_sync`` is the time of a rank from the end of its previous step to its last wait,
    earlier waits excluded; ``arrived`` is the start of that wait, ``transfer`` the time from the
    last rank's arrival to this rank's release, ``own_after_release`` the time from there to the end
    of the step. ``begin`` is the end of the previous step (the start of the step itself where
    unknown). ``parts`` holds each of ``OWN_PARTS``, and as ``outside`` the time outside all phases.
    ``follows`` [steps] is true where the row before is the previous step.

    ``behind_release`` is the part of ``before_update`` in ``own_after_release``: all of it where
    gradients are reduced by then. ``evaluates`` is true where the rank also evaluates in the step.
    ``syncs`` are the synchronizations of steps that have several; None where each step has one. In
    a light recording a row is the mean step of ``steps_per_row`` steps, and ``steps`` are their
    first ones.
    """

    ranks: NDArray[np.int64]
    steps: NDArray[np.int64]
    follows: NDArray[np.bool_]
    begin: Times
    own_before_sync: Times
    arrived: Times
    transfer: Times
    own_after_release: Times
    parts: Mapping[str, Times]
    clock_error: Times
    behind_release: Times
    evaluates: Bools
    syncs: SyncPoints | None = None
    steps_per_row: int = 1

    @property
    def points(self) -> SyncPoints:
        """The synchronizations of all steps; the step itself where it has one."""
        if self.syncs is not None:
            return self.syncs
        return SyncPoints(
            per_step=1,
            follows=self.follows,
            begin=self.begin,
            before=self.own_before_sync,
            arrived=self.arrived,
            submitted=self.arrived,
            tail=self.transfer,
            after=self.own_after_release,
        )

    @property
    def own(self) -> Times:
        """Own work of each rank in each step."""
        return np.asarray(np.sum([self.parts[part] for part in OWN_PARTS], axis=0))

    @property
    def end(self) -> Times:
        """End of each step on each rank."""
        last = self.arrived.max(axis=1, keepdims=True)
        return np.asarray(last + self.transfer + self.own_after_release)

    @property
    def step_times(self) -> Times:
        """[steps] From the end of the previous step to the end of this one, of the last ranks."""
        return np.asarray(self.end.max(axis=1) - self.begin.max(axis=1))


def behind_release(before_update: Times, optimizer: Times, after: Times) -> Times:
    """The part of the time before the update that lies behind the release of the step.

    Args:
        before_update: From the end of backward to the update.
        optimizer: The update.
        after: From the release to the end of the step.
    """
    return np.minimum(before_update, np.maximum(after - optimizer, 0.0))


def step_work(
    steps: pd.DataFrame,
    events: pd.DataFrame,
    job_steps: pd.DataFrame,
    waits: pd.DataFrame | None = None,
) -> dict[LaunchKey, StepWork]:
    """The steady steps recorded on all ranks, by launch; of a light recording mean steps.

    Launches without such a step, without a measured blocked time, or without any time are omitted.

    Args:
        steps: STEPS.
        events: EVENTS, of which the recorder's ``blocked`` pieces are used.
        job_steps: JOB_STEPS with ``steady`` set.
        waits: WAITS; without it every step has one synchronization.
    """
    steady = job_steps.loc[job_steps["steady"], [*LAUNCH, "step"]]
    wanted = {key: steady["step"].to_numpy()[rows] for key, rows in rows_by_launch(steady)}
    releases = _releases(events)
    waits_of: dict[LaunchKey, pd.DataFrame] = {}
    if waits is not None and len(waits):
        waits_of = {key: waits.iloc[rows] for key, rows in rows_by_launch(waits)}
    found = {}
    for key, rows in rows_by_launch(steps):
        if key in wanted:
            work = _of_launch(steps, rows, wanted[key], releases.get(key), waits_of.get(key))
            # Times that contradict each other can leave steps of no length.
            if work is not None and work.step_times.sum() > 0:
                found[key] = work
    return found


def with_all_ranks(
    works: Mapping[LaunchKey, StepWork], segments: pd.DataFrame
) -> dict[LaunchKey, StepWork]:
    """The launches with recorder files of every rank.

    Without the file of a rank the last rank is unknown: waiting for it would count as transfer.

    Args:
        works: The steps of each launch.
        segments: SEGMENTS, for the number of ranks.
    """
    sizes = segments[[*LAUNCH, "size"]].itertuples(index=False, name=None)
    size_of = {(str(pass_id), str(segment)): int(size) for pass_id, segment, size in sizes}
    return {key: work for key, work in works.items() if len(work.ranks) == size_of.get(key)}


def medians_of_others(times: Times) -> Times:
    """The median of the other ranks' times in the same step, [steps, ranks], of two ranks or more.

    Args:
        times: [steps, ranks]
    """
    num_ranks = times.shape[1]
    middle = num_ranks // 2
    if num_ranks % 2 == 0:
        low, high = np.partition(times, (middle - 1, middle), axis=1)[:, middle - 1 : middle + 1].T
        return np.asarray(np.where(times <= low[:, None], high[:, None], low[:, None]))
    places = (middle - 1, middle, middle + 1)
    low, own, high = np.partition(times, places, axis=1)[:, middle - 1 : middle + 2].T[..., None]
    # Without a time below the middle, the two above it are left, and so on.
    without_own = np.where(times >= high, low + own, low + high)
    return np.asarray(np.where(times <= low, own + high, without_own) / 2)


def _releases(events: pd.DataFrame) -> dict[LaunchKey, pd.DataFrame]:
    """The end of the last blocked piece of each rank and step, by launch."""
    blocked = events[
        (events["source"] == "recorder").to_numpy() & (events["activity"] == "blocked").to_numpy()
    ]
    ends = blocked[[*LAUNCH, "rank", "step"]].assign(
        release_ns=blocked["start_ns"] + blocked["dur_ns"]
    )
    last = ends.groupby([*LAUNCH, "rank", "step"], observed=True, sort=False)["release_ns"].max()
    table = last.reset_index()
    return {key: table.iloc[rows] for key, rows in rows_by_launch(table)}


def _releases_of_windows(waits: pd.DataFrame) -> pd.DataFrame:
    """The end of the last wait of each rank and window, as ``_releases`` gives that of steps."""
    ends = waits[["rank", "step"]].assign(release_ns=waits["start_ns"] + waits["dur_ns"])
    return ends.groupby(["rank", "step"], sort=False)["release_ns"].max().reset_index()


def _of_launch(
    table: pd.DataFrame,
    rows: NDArray[np.intp],
    wanted: NDArray[np.int64],
    releases: pd.DataFrame | None,
    waits: pd.DataFrame | None,
) -> StepWork | None:
    numbers, of_ranks = (table[name].to_numpy()[rows] for name in ("step", "rank"))
    ranks = np.unique(of_ranks)
    found, counts = np.unique(numbers, return_counts=True)
    complete = found[counts == len(ranks)]
    order = np.lexsort((of_ranks, numbers))
    ordered = rows[order[np.isin(numbers[order], complete)]]
    steady = np.isin(complete, wanted)
    if not steady.any():
        return None
    shape = (len(complete), len(ranks))

    def grid(name: str) -> Times:
        values: Times = table[name].array[ordered].to_numpy(dtype=np.float64)
        return values.reshape(shape)

    number = grid("num_steps")
    if releases is None and waits is not None and (number > 1).any():
        releases = _releases_of_windows(waits)
    start, length = grid("start_ns"), grid("dur_ns")
    end = start + length * number
    ends_at = complete + number.max(axis=1)
    follows = np.append(False, complete[1:] == ends_at[:-1])
    begin = np.where(follows[:, None], np.roll(end, 1, axis=0), start)
    # A window of several steps stands for its mean step, at its end.
    begin = end - (end - begin) / number
    blocked = grid("blocked_ns")
    if np.isnan(blocked).any():
        return None
    release = _release_grid(releases, complete, ranks, default=end)
    before = release - begin - blocked
    # Earlier waits of a step count as if they were last: only the sum of work matters.
    arrived = release - blocked
    tail = release - arrived.max(axis=1, keepdims=True)
    parts = {part: grid(f"{part}_ns")[steady] for part in (*OWN_PARTS, "outside")}
    after = end - release
    behind = behind_release(grid("before_update_ns"), grid("optimizer_ns"), after)
    # A steady step after an excluded step still starts at the end of that step.
    previous_is_steady = np.concatenate([[False], steady[:-1]])
    follows_steady = (follows & previous_is_steady)[steady]
    grid_of_steps = StepGrid(
        ranks=ranks.astype(np.int64),
        steps=complete[steady].astype(np.int64),
        follows=follows_steady,
        begin=begin[steady],
        blocked=blocked[steady],
        released=release[steady],
        after=after[steady],
    )
    return StepWork(
        ranks=ranks.astype(np.int64),
        steps=complete[steady].astype(np.int64),
        follows=follows_steady,
        begin=begin[steady],
        own_before_sync=before[steady],
        arrived=arrived[steady],
        transfer=tail[steady],
        own_after_release=after[steady],
        parts=parts,
        clock_error=grid("clock_error_ns")[steady],
        behind_release=behind[steady],
        evaluates=table["evaluation"].to_numpy()[ordered].reshape(shape)[steady],
        syncs=None if waits is None else sync_points(grid_of_steps, waits),
        steps_per_row=int(np.median(number[steady])),
    )


def _release_grid(
    releases: pd.DataFrame | None,
    steps: NDArray[np.int64],
    ranks: NDArray[np.int64],
    *,
    default: Times,
) -> Times:
    grid = default.copy()
    if releases is None:
        return grid
    known = releases[releases["step"].isin(steps)]
    row = np.searchsorted(steps, known["step"].to_numpy())
    column = np.searchsorted(ranks, known["rank"].to_numpy())
    grid[row, column] = known["release_ns"].to_numpy()
    return grid
