"""A run as read from its directory, and the finished analysis of it."""

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from hvdprof.model.tables import JOB_STEPS, RANKS
from hvdprof.rundir.manifest import Manifest, Skipped


@dataclass(frozen=True, slots=True)
class Run:
    """A manifest and the tables that its files hold; ``notes`` say what was skipped or is odd.

    The tables are those of ``model.tables`` of the same names.
    """

    folder: Path
    manifest: Manifest
    segments: pd.DataFrame
    steps: pd.DataFrame
    arrivals: pd.DataFrame
    events: pd.DataFrame
    notes: tuple[str, ...]
    ranks: pd.DataFrame = field(default_factory=RANKS.empty)


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run directory in a list of runs; ``problem`` is empty where its manifest can be read."""

    folder: Path
    name: str
    created_at: str
    status: str
    problem: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer in one sentence, and the numbers in it.

    ``model``, ``np`` and the efficiencies are those of the largest valid size of the model that
    scales worst; NaN where the run holds nothing to compare. ``biggest_loss`` is the part of
    ``model.tables.LOSSES`` that costs most there, empty where no part stands out.
    """

    sentence: str
    model: str
    np: int
    efficiency: float
    efficiency_low: float
    efficiency_high: float
    biggest_loss: str
    biggest_loss_share: float


@dataclass(frozen=True, slots=True)
class FailedSegment:
    """A cell that has no result in one pass, and why.

    ``rank``, ``exit_code`` and ``signal`` are those of the process that failed first, ``None``
    where that is not known; ``lines`` are the last lines printed that explain it.
    """

    pass_id: str
    model: str
    np: int
    engine: str
    compression: str
    reduction: str
    reason: str
    rank: int | None
    exit_code: int | None
    signal: str | None
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunAnalysis:
    """Finished tables and sentences; everything after it only formats."""

    run: Run
    verdict: Verdict
    launches: pd.DataFrame
    scaling: pd.DataFrame
    losses: pd.DataFrame
    skipped: tuple[Skipped, ...]
    failed: tuple[FailedSegment, ...]
    warnings: tuple[str, ...]
    job_steps: pd.DataFrame = field(default_factory=JOB_STEPS.empty)
