"""Other processes on the hosts: how much they took, when, and whether that explains a loss."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.model.cell_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Run
from hvdprof.model.schema import as_text
from hvdprof.model.tables.run_tables import TURNS
from hvdprof.rundir.manifest import PassRecord
from hvdprof.rundir.recording.sample_format import CORE_WAIT, MAIN_THREAD

NEGLIGIBLE_CORES = 0.15
"""Cores that other processes may use in any turn: the launching side and the system itself."""

SPARE_SHARE = 0.25
"""The share of the cores that a launch leaves free which other processes may use besides."""

MIN_TURNS = 2


def counted_turns(run: Run) -> pd.DataFrame:
    """TURNS without the disturbed ones of launches that have undisturbed turns enough.

    A launch with fewer than ``MIN_TURNS`` undisturbed turns of a segment keeps all of that segment:
    its interval then includes what the machine was like.
    """
    turns = run.table(TURNS.name)
    if turns.empty:
        return turns
    # Cores of the host that the threads of a pass leave free, by pass; 0 where unknown.
    here = run.manifest.hosts[0] if run.manifest.hosts else {}
    cores = int(here.get("num_cores") or 0)
    used: Counter[str] = Counter()
    for pass_id, number in zip(run.ranks["pass_id"], run.ranks["num_threads"], strict=True):
        used[str(pass_id)] += max(int(number), 1)
    spare = {pass_id: float(max(cores - count, 0)) for pass_id, count in used.items()}
    free = np.array([spare.get(str(pass_id), np.nan) for pass_id in turns["pass_id"]])
    is_undisturbed = ~(turns["other_cores"] > NEGLIGIBLE_CORES + SPARE_SHARE * free).to_numpy()
    counts = np.ones(len(turns), dtype=bool)
    for _, rows in rows_by_launch(turns):
        if is_undisturbed[rows].sum() >= MIN_TURNS:
            counts[rows] = is_undisturbed[rows]
    return turns[counts].reset_index(drop=True)


def in_counted_turns(job_steps: pd.DataFrame, turns: pd.DataFrame) -> pd.DataFrame:
    """JOB_STEPS without those of launches with turns that lie in none of the given turns."""
    if turns.empty:
        return job_steps
    bounds = {
        key: (turns["first_step"].to_numpy()[rows], turns["num_steps"].to_numpy()[rows])
        for key, rows in rows_by_launch(turns)
    }
    counts = np.ones(len(job_steps), dtype=bool)
    numbers = job_steps["step"].to_numpy()
    for key, rows in rows_by_launch(job_steps):
        if key in bounds:
            first, length = bounds[key]
            turn = np.searchsorted(first, numbers[rows], side="right") - 1
            counts[rows] = (turn >= 0) & (numbers[rows] < (first + length)[turn])
    return job_steps[counts].reset_index(drop=True)


def turns_by_launch(turns: pd.DataFrame) -> dict[LaunchKey, int]:
    """The number of turns of each launch."""
    return {key: len(rows) for key, rows in rows_by_launch(turns[LAUNCH])}


BUSY_CORES = 0.2
STEAL_SHARE = 0.02


def host_condition_warnings(run: Run) -> Iterator[Note]:
    """Warnings on other processes, the hypervisor, and unequal threads.

    Other processes count by the processor time that they use during a pass. The load average
    before the first pass is no evidence: it still holds a build that has just ended.
    """
    yield from _other_processes(run.manifest.passes)
    yield from _steal(run.manifest.passes)
    yield from _threads(run)


def _other_processes(passes: list[PassRecord]) -> Iterator[Note]:
    busy = [record for record in passes if (record.other_cpu_cores or 0) > BUSY_CORES]
    if busy:
        worst = max(busy, key=lambda record: record.other_cpu_cores or 0)
        text = (
            f"Other processes kept cores busy during {len(busy)} of {len(passes)} passes, up to "
            f"{worst.other_cpu_cores:.1f} cores in {worst.id}."
        )
        yield Note(NoteCode.OTHER_LOAD, text, pass_id=worst.id, number=len(busy))


def _steal(passes: list[PassRecord]) -> Iterator[Note]:
    affected = [record for record in passes if (record.steal_share or 0) > STEAL_SHARE]
    if affected:
        worst = max(affected, key=lambda record: record.steal_share or 0)
        text = (
            f"The hypervisor took cores away during {len(affected)} of {len(passes)} passes, at "
            "most "
            f"{units.percent(worst.steal_share or 0)} of the time in {worst.id}."
        )
        yield Note(NoteCode.STEAL, text, pass_id=worst.id, number=len(affected))


def _threads(run: Run) -> Iterator[Note]:
    known = run.ranks.loc[run.ranks["num_threads"] > 0, "num_threads"]
    numbers = sorted(set(known))
    if len(numbers) > 1:
        text = (
            f"Ranks computed with {' or '.join(map(str, numbers))} threads: cells with different "
            "threads per rank cannot be compared."
        )
        yield Note(NoteCode.UNEQUAL_THREADS, text)


LEAST_EXPLAINED = 0.5
"""The part of a loss that the load must be able to explain to be its cause.

What explains less leaves the larger part to another cause, and so does the fix that ends it. The
whole loss is not asked for: a rank that lost its core waits for the next slice as well, and
finds its caches cold, so that a loss can exceed the time that was taken.
"""


MOST_CHANCE = 0.01
"""Ranks that differ in their windows by chance as often are not said to."""


def core_loss(waits: pd.DataFrame, ran: pd.DataFrame) -> pd.Series:
    """Share of its time that a rank would have saved with the others' waits for a core.

    What runs takes so much longer for each share of its time without a core. What a rank runs
    beyond the others is work of its own: CORE_WAIT and MAIN_THREAD of RANK_MACHINE, alike indexed.
    """
    common = ran["mean"].clip(upper=ran["others"]).reindex(waits.index)
    own, others = (1 - waits[name].clip(upper=0.99) for name in ("mean", "others"))
    return common / own - common / others


def passing_core_losses(machine: pd.DataFrame) -> dict[object, dict[int, float]]:
    """``core_loss`` by launch and rank, by RANK_MACHINE; not of ranks that always wait more."""
    waits, ran = (
        as_text(machine[(machine["measure"] == name).to_numpy(bool)], LAUNCH).set_index(
            [*LAUNCH, "rank"]
        )
        for name in (CORE_WAIT, MAIN_THREAD)
    )
    losses = core_loss(waits, ran)
    passing = losses[waits["chance"] > MOST_CHANCE].groupby(level=[0, 1])
    return {
        key: dict(zip(own.index.get_level_values("rank").tolist(), own.tolist(), strict=True))
        for key, own in passing
    }


@dataclass(frozen=True, slots=True)
class OtherLoad:
    """Load of other processes on the launching host, in the launches of a cell.

    A launch counts as busy where they used more than ``BUSY_CORES``, and more than the ranks left
    free. What they took from the ranks is what they used beyond these free cores, and beyond
    ``NEGLIGIBLE_CORES``, which the launching side and the system use on an idle host, too.

    Attributes:
        num_cores: Cores of the host; 0 where unknown, and then no launch is busy.
        num_launches: Launches of the cell whose load is known.
        num_busy: Those of them that are busy.
        most_cores: Most cores that others used in a busy launch; 0 without one.
        taken_cores: Cores that they took from the ranks, mean over these launches.
        is_idle: Whether they used at most ``BUSY_CORES`` in each launch; False where unknown.
    """

    num_cores: int
    num_launches: int
    num_busy: int = 0
    most_cores: float = 0.0
    taken_cores: float = 0.0
    is_idle: bool = False

    @property
    def text(self) -> str:
        """``other processes kept up to 1.7 of 2 cores busy in 1 of 3 launches``, or empty."""
        if not self.num_busy:
            return ""
        of_all = f" in {self.num_busy} of {self.num_launches} launches"
        return (
            f"other processes kept up to {self.most_cores:.1f} of {self.num_cores} cores busy"
            f"{of_all if self.num_busy < self.num_launches else ''}"
        )

    def can_cost(self, share: float, num_ranks: int) -> bool:
        """Whether it can explain ``LEAST_EXPLAINED`` of a loss.

        In launches of T seconds others took ``taken_cores * T`` seconds of processor time from the
        ranks; the loss is ``share * T`` on each of its ranks.

        Args:
            share: The loss divided by the step time, mean over launches.
            num_ranks: The ranks that have it.
        """
        return 0 < LEAST_EXPLAINED * share * num_ranks <= self.taken_cores


def other_load(run: Run, launches: pd.DataFrame, threads: int, num_cores: int) -> OtherLoad:
    """The load in some launches, of launches in turns in the turns that count.

    Args:
        run: Any run.
        launches: Rows of SEGMENTS.
        threads: Threads of the ranks on the launching host, in one launch.
        num_cores: Cores of that host; 0 where unknown.
    """
    spare = max(num_cores - threads, 0)
    loads = np.array(list(_loads(run, launches)))
    if not len(loads):
        return OtherLoad(num_cores, 0)
    is_busy = (loads > max(BUSY_CORES, spare)) & (num_cores > 0)
    taken = np.where(is_busy, loads - max(NEGLIGIBLE_CORES, spare), 0.0)
    return OtherLoad(
        num_cores=num_cores,
        num_launches=len(loads),
        num_busy=int(is_busy.sum()),
        most_cores=float(loads[is_busy].max(initial=0.0)),
        taken_cores=float(taken.mean()),
        is_idle=len(loads) == len(launches) and bool((loads <= BUSY_CORES).all()),
    )


def _loads(run: Run, launches: pd.DataFrame) -> Iterator[float]:
    """Cores that others used in each launch; nothing of one where that is unknown."""
    of_passes = {record.id: record.other_cpu_cores for record in run.manifest.passes}
    turns = counted_turns(run)
    known = turns[turns["other_cores"].notna() & (turns["num_steps"] > 0)]
    cores, steps = known["other_cores"].to_numpy(), known["num_steps"].to_numpy()
    in_turns = {
        key: float(np.average(cores[rows], weights=steps[rows]))
        for key, rows in (rows_by_launch(known) if len(known) else ())
    }
    for key in zip(*(launches[name].tolist() for name in LAUNCH), strict=True):
        load = in_turns.get(key, of_passes.get(key[0]))
        if load is not None:
            yield load
