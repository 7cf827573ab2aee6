"""Where input is lost: in too few workers, in their work, or behind it; from what was sampled.

Tested in ``tests/analyze/findings/test_input_evidence.py``.
"""

import math
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice
from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.model.tables.line_tables import IDLE_LEAVES, LEAST_SAMPLES, LINE_SAMPLES
from hvdprof.model.tables.sample_tables import HOST_SAMPLES, RANK_MACHINE
from hvdprof.rundir.recording.line_format import WORKER_PROCESS
from hvdprof.rundir.recording.sample_format import BUSY, WORKERS

BUSY_WORKERS, IDLE_WORKERS = 0.8, 0.5
"""From this share of their time on workers are what the ranks wait for; below that they are not."""

MOST_WORKERS = 16

_FIRST_WORKERS = advice(
    "load batches in workers: DataLoader(num_workers={number})",
    "Add persistent_workers=True where epochs are short.",
)
_MORE_WORKERS = advice("set num_workers={number}", "Each needs a core: that many are idle.")
_CHEAPER = advice(
    "make the loading of a sample cheaper: no core is idle for more workers",
    "Decode and resize beforehand, store samples smaller, use a faster decoder. More workers help "
    "only where loading waits: for storage, or for a network.",
)
_BEHIND_WORKERS = advice(
    "look at what lies between the workers and the loop: large batches through shared memory, "
    "pin_memory, .to(device) without non_blocking=True",
    "More workers do not help: they are idle. At the begin of each epoch persistent_workers=True "
    "does.",
)


@dataclass(frozen=True, slots=True)
class InputEvidence:
    """What was seen of the workers: a sentence, and what follows from it; empty where nothing."""

    sentence: str
    advice: Advice


def input_evidence(evidence: Evidence, cell: Cell) -> InputEvidence:
    """How many workers the ranks of a cell have, how busy they are, and how many cores are idle.

    Args:
        evidence: The run.
        cell: A row of SCALING.
    """
    nothing = InputEvidence("", Advice())
    rows = evidence.rows_of(evidence.table(RANK_MACHINE.name), cell)
    known = rows.loc[(rows["measure"].astype(str) == WORKERS).to_numpy(), "mean"]
    if known.empty:
        return nothing
    number = round(float(known.median()))
    idle, cores = _idle_cores(evidence, cell)
    more = 0 if math.isnan(idle) else int(idle / max(int(cell["np"]), 1))
    of_cores = "" if math.isnan(idle) else f" {idle:.1f} of {cores} cores are idle."
    if number == 0:
        text = f"No worker process loads batches for the ranks.{of_cores}"
        fits = math.isnan(idle) or more > 0
        wanted = "..." if math.isnan(idle) else min(more, MOST_WORKERS)
        return InputEvidence(text, _FIRST_WORKERS.formatted(number=wanted) if fits else _CHEAPER)
    busy = _busy_share(evidence, cell)
    if math.isnan(busy):
        return nothing
    workers = "The worker" if number == 1 else f"The {number} workers"
    verb = "is" if number == 1 else "are"
    text = f"{workers} of a rank {verb} busy for {units.percent(busy, 0)} of the time.{of_cores}"
    if busy < IDLE_WORKERS:
        return InputEvidence(text, _BEHIND_WORKERS)
    if busy < BUSY_WORKERS or math.isnan(idle):
        return InputEvidence(text, Advice())
    wanted = min(number + more, max(number, MOST_WORKERS))
    return InputEvidence(text, _MORE_WORKERS.formatted(number=wanted) if more else _CHEAPER)


def _idle_cores(evidence: Evidence, cell: Cell) -> tuple[float, int]:
    """Cores of the host that nothing used, and its cores; NaN for several hosts or unknown ones."""
    setting = cell_setting(evidence.run, cell)
    samples = evidence.table(HOST_SAMPLES.name)
    passes = set(evidence.launches_of(cell)["pass_id"])
    is_own = (samples["measure"].astype(str) == BUSY) & samples["pass_id"].astype(str).isin(passes)
    busy = samples.loc[is_own.to_numpy(), "mean"]
    if busy.empty or setting.num_hosts != 1 or not setting.num_cores:
        return NAN, 0
    return max(setting.num_cores - float(busy.median()), 0.0), setting.num_cores


def _busy_share(evidence: Evidence, cell: Cell) -> float:
    """The share of the samples of the workers in which they did not wait; NaN of few."""
    samples = evidence.rows_of(evidence.table(LINE_SAMPLES.name), cell)
    own = samples[(samples["process"].astype(str) == WORKER_PROCESS).to_numpy()]
    total = int(own["samples"].sum())
    if total < LEAST_SAMPLES:
        return NAN
    leaves = own["leaf"].astype(str)
    is_idle = pd.Series(False, index=own.index)
    for part in IDLE_LEAVES:
        is_idle |= leaves.str.contains(part, regex=False)
    return 1 - float(own.loc[is_idle, "samples"].sum()) / total
