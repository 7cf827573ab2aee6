"""What findings say of what the machine did to the ranks that they name.

A measure explains a straggler only where its ranks differ from the others in the same windows
beyond chance, and where the difference is large enough for most of the delay. Otherwise, what was
seen is no cause; that a rank had its cores is then said, as other processes are a usual suspect.

Tested in ``tests/analyze/findings/test_machine_evidence.py``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice
from hvdprof.analyze.findings.cell_finding import CostlyCause
from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.analyze.ranks.named_cause import PERIODIC
from hvdprof.analyze.steps.other_load import LEAST_EXPLAINED, MOST_CHANCE, core_loss
from hvdprof.model.arrays import Float64s
from hvdprof.model.cause_names import ranks_of
from hvdprof.model.cell_key import LAUNCH
from hvdprof.model.tables.sample_tables import HOST_SAMPLES, RANK_MACHINE
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.recording.sample_format import (
    CORE_WAIT,
    CPU,
    LIMITS,
    MAIN_THREAD,
    MAJOR_FAULTS,
    MEASURES,
    SM_CLOCK,
    SWAP_IN,
    THROTTLED,
    WORKERS,
)

LEAST_SHARE = 0.05
"""The least difference that is said: of a share, of the time on a core, of a clock."""

LEAST_SWAP = 1e6
"""Bytes per second that a host reads from swap, mean of a launch, from which on that is said."""

LEAST_FAULTS, PAGE_S = 20, 1e-3
"""Pages per second that a rank reads from disk more than the others, to be said, and seconds that
one takes at most: where that is less than half of a delay, pages do not explain it."""

MOST_NOT = 0.25
"""Where cores explain less of a delay, they are said not to explain it."""

_NOTHING = Advice()
_OWN_CORE = advice(
    "give {ranks} cores without other processes",
    "`top -H` on the host shows what runs there. Pin every rank to cores of its own.",
    command="top -H",
)
_QUOTA = advice(
    "raise the CPU limit of the container or cgroup of {ranks} (cpu.max)",
    "Or start fewer threads and DataLoader workers there.",
)
_CHECK_CORES = advice(
    "run `top -H` on the host during the job, and end what shares cores with {ranks}",
    command="top -H",
)
_THREADS = advice(
    "look at the other threads of {ranks}: `py-spy top --gil --pid PID`",
    "One that computes in Python holds the interpreter's lock (GIL), and the main thread waits "
    "for it. Move it to a process of its own.",
    command="py-spy top --gil --pid PID",
)
_CLOCK = advice(
    "look at the GPU of {ranks}: `nvidia-smi -q -d CLOCK,PERFORMANCE,POWER`",
    "Cool it, raise its power limit or its clocks to those of the others, or replace it.",
    command="nvidia-smi -q -d CLOCK,PERFORMANCE,POWER",
)
_MEMORY = advice(
    "use less memory on {ranks}, or raise its memory limit",
    "A page in swap is read from disk when it is used, and the rank waits for it.",
)


@dataclass(frozen=True, slots=True)
class MachineEvidence:
    """What the machine did: a sentence, and what to do where it explains the cause.

    ``check`` is what to look at before any line: it would explain the cause, but the samples are
    too few to prove it. ``excludes_cores`` is true where other processes are no cause, or more time
    of the main thread on a core explains half of it; ``beyond_cores`` where waits for a core
    explain less than half by the samples that there are.
    """

    sentence: str = ""
    fix: Advice = _NOTHING
    check: Advice = _NOTHING
    excludes_cores: bool = False
    beyond_cores: bool = False


def machine_evidence(evidence: Evidence, cause: CostlyCause) -> MachineEvidence:
    """What RANK_MACHINE says of a straggler; empty without samples.

    Args:
        evidence: The run.
        cause: A straggler or pause.
    """
    ranks = ranks_of(cause.row)
    rows = evidence.rows_of(evidence.table(RANK_MACHINE.name), cause.cell)
    if not ranks or rows.empty or cause.row["pattern"] == PERIODIC:
        return MachineEvidence()
    own = rows[rows["rank"].isin(ranks)].astype({"measure": str})
    who = ranks_named(ranks)
    share = float(cause.row["share"])
    fixes = {THROTTLED: _QUOTA, CPU: _THREADS, CORE_WAIT: _OWN_CORE, SM_CLOCK: _CLOCK}
    for measure, general in fixes.items():
        found = _differing(own, measure)
        if found is None or _explained(own, measure) < LEAST_EXPLAINED * share:
            continue
        text = f"{_said(who, measure, own, found)}{_limits(own, measure)}"
        return MachineEvidence(f"{text}.", general.formatted(ranks=_short(ranks)))
    swapped = _swap_rate(evidence, cause.cell)
    found = _differing(own, MAJOR_FAULTS) if swapped >= LEAST_SWAP else None
    if found is not None and _explained(own, MAJOR_FAULTS) >= LEAST_EXPLAINED * share:
        return MachineEvidence(
            f"{_said(who, MAJOR_FAULTS, own, found)}. Its host reads {units.byte_size(swapped)} "
            "per second from swap.",
            _MEMORY.formatted(ranks=_short(ranks)),
        )
    # Equal ranks are first, or last, in all of so many windows by MOST_CHANCE.
    num_ranks = max(int(rows["rank"].nunique()), 2)
    needed = math.ceil(math.log(2 * num_ranks / MOST_CHANCE, num_ranks))
    checks = {CPU: _THREADS, CORE_WAIT: _CHECK_CORES}
    for measure in fixes:
        found = _differing(own, measure, most_chance=1.0)
        if found is None or _explained(own, measure) < LEAST_EXPLAINED * share:
            continue
        if int(found["windows"].max()) < needed:
            text = f"{_said(who, measure, own, found)}{_limits(own, measure)}"
            return MachineEvidence(
                f"{text}: too few for the test, which takes {needed} windows.",
                check=checks.get(measure, _NOTHING).formatted(ranks=_short(ranks)),
            )
    return _beyond_cores(own, who, share, needed)


def _beyond_cores(own: pd.DataFrame, who: str, share: float, needed: int) -> MachineEvidence:
    """Where waits for a core explain less than half of a delay: that, and more work of the rank."""
    waits = own[(own["measure"] == CORE_WAIT).to_numpy()]
    if waits["others"].isna().all():
        return MachineEvidence()
    beyond = _explained(own, CORE_WAIT) < LEAST_EXPLAINED * share
    more = _differing(own, MAIN_THREAD)
    if beyond and more is not None and _explained(own, MAIN_THREAD) >= LEAST_EXPLAINED * share:
        text = f"{_said(who, MAIN_THREAD, own, more)}: more work, or a slower core."
        return MachineEvidence(text, excludes_cores=True, beyond_cores=True)
    if _explained(own, CORE_WAIT) > MOST_NOT * share:
        return MachineEvidence(beyond_cores=beyond)
    mean, others = (units.percent(float(waits[name].mean()), 0) for name in ("mean", "others"))
    has_enough = int(waits["windows"].max()) >= needed
    lead = "Other processes on the cores do not explain it: " if has_enough else ""
    end = "" if has_enough else f"; to exclude that takes {needed} windows"
    return MachineEvidence(
        f"{lead}{who if lead else who[0].upper() + who[1:]} had no core for {mean} of the time in "
        f"which it could run, the others for {others}{end}.",
        excludes_cores=has_enough,
        beyond_cores=True,
    )


def cores_of_ranks(evidence: Evidence, cell: Cell) -> float:
    """The share of the time in which the ranks of a cell could run that they had no core.

    Mean over ranks; NaN without samples.
    """
    rows = evidence.rows_of(evidence.table(RANK_MACHINE.name), cell)
    return float(rows.loc[(rows["measure"].astype(str) == CORE_WAIT).to_numpy(), "mean"].mean())


def _swap_rate(evidence: Evidence, cell: Cell) -> float:
    """Bytes per second that the host reads from swap, mean of the launches; 0 on several hosts."""
    samples = evidence.table(HOST_SAMPLES.name)
    if len(set(samples["rank"])) != 1:
        return 0.0
    is_own = samples["pass_id"].astype(str).isin(set(evidence.launches_of(cell)["pass_id"]))
    own = samples[(is_own & (samples["measure"].astype(str) == SWAP_IN)).to_numpy()]
    return float(np.average(own["mean"], weights=own["duration_ns"])) if len(own) else 0.0


def _differing(
    own: pd.DataFrame, measure: str, *, most_chance: float = MOST_CHANCE
) -> pd.DataFrame | None:
    """The rows of a measure, where every rank differs to its harm in most launches; else None."""
    rows = own[(own["measure"] == measure).to_numpy()]
    if rows.empty:
        return None
    is_worse_above = measure != SM_CLOCK
    more = (rows["mean"] - rows["others"]) * (1 if is_worse_above else -1)
    size = more if is_worse_above else more / rows["others"]
    if measure == CORE_WAIT:
        # Of the time on a core: on a crowded host all ranks lack one for most of the time.
        size = more / (1 - rows["others"]).clip(lower=0.01)
    least = LEAST_FAULTS if measure == MAJOR_FAULTS else LEAST_SHARE
    windows = rows["num_above" if is_worse_above else "num_below"]
    differs = (rows["chance"] <= most_chance) & (size >= least) & (2 * windows > rows["windows"])
    by_rank = differs.groupby(rows["rank"]).mean()
    return rows if bool((by_rank >= 0.5).all()) else None


def _explained(own: pd.DataFrame, measure: str) -> float:
    """The share of its time that a rank would have saved with what the others had; at least."""
    rows = _of(own, measure)
    mean, others = rows["mean"].to_numpy(), rows["others"].to_numpy()
    if measure == MAJOR_FAULTS:
        saved = (mean - others) * PAGE_S
    elif measure == SM_CLOCK:
        saved = 1 - mean / np.maximum(others, 1.0)
    elif measure == MAIN_THREAD:
        saved = mean - others
    elif measure == CPU:
        saved = np.subtract(*_other_threads(own))
    elif measure == CORE_WAIT:
        saved = core_loss(rows, _of(own, MAIN_THREAD)).to_numpy()
    else:
        # A period may be throttled for any part of it.
        saved = np.where(mean - others > 0, 1.0, 0.0)
    return float(np.nanmean(saved)) if np.isfinite(saved).any() else 0.0


def _of(own: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The rows of a measure, by launch and rank."""
    return own[(own["measure"] == measure).to_numpy()].set_index([*LAUNCH, "rank"])


def _other_threads(own: pd.DataFrame) -> tuple[Float64s, Float64s]:
    """Cores of the threads beside the main one, and what they would be in proportion to it.

    The proportion is that of the other ranks: with more work, the threads of operators do more,
    too. Zeros where workers are counted with them.
    """
    every, main = _of(own, CPU), _of(own, MAIN_THREAD).reindex(_of(own, CPU).index)
    if _of(own, WORKERS)["mean"].any():
        return np.zeros(len(every)), np.zeros(len(every))
    beside, of_others = ((every[name] - main[name]).to_numpy() for name in ("mean", "others"))
    more_work = (main["mean"] / main["others"].clip(lower=0.01)).clip(lower=1.0).to_numpy()
    return beside, of_others.clip(0.0) * more_work


def _said(who: str, measure: str, own: pd.DataFrame, rows: pd.DataFrame) -> str:
    mean, others = (float(rows[name].mean()) for name in ("mean", "others"))
    above, below, windows = (int(rows[n].sum()) for n in ("num_above", "num_below", "windows"))
    # Those of the test, which may be one more than the windows of the rank.
    windows = max(windows, above + below)
    largest = float(rows["chance"].max())
    chance = f", by chance at most {units.percent(max(largest, 1e-4), 2)}" if largest < 0.5 else ""
    test = f"in {max(above, below)} of {windows} windows{chance}"
    if measure == SM_CLOCK:
        lower = units.percent(1 - mean / others, 0)
        return (
            f"The SM clock of {who} is {mean / 1e6:.0f} MHz, {lower} below that of the others "
            f"({test})"
        )
    capital = f"{who[0].upper()}{who[1:]}"
    if measure == MAJOR_FAULTS:
        return (
            f"{capital} reads {mean:.0f} pages per second from disk (major faults), the others "
            f"{others:.0f} (more {test})"
        )
    if measure == CPU:
        threads, usual = (float(part.mean()) for part in _other_threads(own))
        return (
            f"Threads of {who} beside its main thread use {threads:.2f} cores, those of the others "
            f"{usual:.2f} (more {test})"
        )
    what = {
        MAIN_THREAD: "computed in its main thread for {} of the time",
        CORE_WAIT: "had no core for {} of the time in which it could run",
        THROTTLED: "had used up the CPU limit of its cgroup in {} of the periods",
    }[measure].format(units.percent(mean, 0))
    return f"{capital} {what}, the others {units.percent(others, 0)} (more {test})"


def _limits(own: pd.DataFrame, measure: str) -> str:
    """``; clock limited by power 62 % of the time``; empty for others and where none is."""
    if measure != SM_CLOCK:
        return ""
    named = [name for name in LIMITS if MEASURES[name].title]
    rows = own[own["measure"].isin(named)]
    means = rows.groupby("measure")[["mean", "others"]].mean()
    parts = [
        f"{MEASURES[str(name)].title} {units.percent(float(row['mean']), 0)} of the time "
        f"(others {units.percent(float(row['others']), 0)})"
        for name, row in means.sort_values("mean", ascending=False).iterrows()
        if row["mean"] - row["others"] >= LEAST_SHARE
    ]
    return f"; {', '.join(parts)}" if parts else ""


def _short(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else "these ranks"
