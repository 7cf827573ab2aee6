"""Steps with several synchronizations, simulated with known truth: own work in, waits out."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.steps.step_work import StepWork, step_work
from hvdprof.model.tables.run_tables import EVENTS, STEPS, WAITS
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from hvdprof.rundir.recording.recorder_format import (
    REDUCE_SCATTER,
    UNSHARD_BACKWARD,
    UNSHARD_FORWARD,
)

MS = 1_000_000
OPTIMIZER_MS = 3.0

Times = NDArray[np.float64]


@dataclass(frozen=True)
class Piece:
    """Own work of a phase, then a wait for all ranks."""

    phase: str
    own_ms: float
    kind: str


def fsdp_step(num_groups: int, step_ms: float = 97.0) -> tuple[Piece, ...]:
    """A step of FSDP2 with so many groups of parameters, where no collective is in flight.

    Forward gathers each group before it computes, backward likewise, and reduces it afterwards.
    """
    data, forward, backward = 2.0, 0.33 * (step_ms - 2.0), 0.67 * (step_ms - 2.0)
    pieces = [Piece("data", data, UNSHARD_FORWARD)]
    layer = forward / num_groups
    pieces += [Piece("forward", layer, UNSHARD_FORWARD)] * (num_groups - 1)
    pieces.append(Piece("forward", layer, UNSHARD_BACKWARD))
    layer = backward / num_groups
    for group in reversed(range(num_groups)):
        pieces.append(Piece("backward", layer, REDUCE_SCATTER))
        if group:
            pieces.append(Piece("backward", 0.1, UNSHARD_BACKWARD))
    return tuple(pieces)


@dataclass(frozen=True)
class SyncedLaunch:
    """STEPS, EVENTS, JOB_STEPS and WAITS of a launch, and its steps as the analysis reads them."""

    steps: pd.DataFrame
    events: pd.DataFrame
    job_steps: pd.DataFrame
    waits: pd.DataFrame

    @property
    def work(self) -> StepWork:
        """The steady steps."""
        return step_work(self.steps, self.events, self.job_steps, self.waits)["p", "s"]


def own_work(
    pieces: tuple[Piece, ...],
    shape: tuple[int, int],
    *,
    extra_ms: Mapping[int, Times | float] | None = None,
    noise: float = 0.02,
    seed: int = 0,
) -> Times:
    """[steps, pieces and optimizer, ranks] Own work in ns, of ranks that differ by noise alone.

    Args:
        pieces: What a step consists of.
        shape: Steps and ranks.
        extra_ms: Added to a piece of that place, [steps, ranks].
        noise: Relative, of a phase; a piece of it has more, so that the phase has this.
        seed: Of the noise.
    """
    rng = np.random.default_rng(seed)
    means = np.array([one.own_ms for one in pieces] + [OPTIMIZER_MS])
    phases = [one.phase for one in pieces] + ["optimizer"]
    spread = np.array([noise * np.sqrt(phases.count(name)) for name in phases])
    size = (shape[0], len(means), shape[1])
    own = means[:, None] * (1 + spread[:, None] * rng.normal(size=size)).clip(0.3)
    for place, extra in (extra_ms or {}).items():
        own[:, place] += extra
    return own * MS


def launch_of(
    pieces: tuple[Piece, ...],
    own: Times,
    *,
    transfer_ms: float = 1.0,
    submits_early: Times | None = None,
) -> SyncedLaunch:
    """The tables of a launch; every rank leaves a wait when the last one has submitted.

    Args:
        pieces: What a step consists of.
        own: [steps, pieces and optimizer, ranks] Own work, ns.
        transfer_ms: From the last submission to the release.
        submits_early: [pieces] ns by which ranks submit before they wait; computed meanwhile.
    """
    num_steps, num_parts, num_ranks = own.shape
    end = np.full(num_ranks, 1e9)
    early = np.zeros(num_parts) if submits_early is None else submits_early
    begins, ends = [], []
    arrived = np.zeros((num_steps, len(pieces), num_ranks))
    submitted, released = np.zeros_like(arrived), np.zeros_like(arrived)
    for step in range(num_steps):
        begins.append(end)
        for place in range(len(pieces)):
            arrived[step, place] = end + own[step, place]
            submitted[step, place] = np.maximum(arrived[step, place] - early[place], end)
            done = submitted[step, place].max() + MS * transfer_ms
            released[step, place] = end = np.maximum(done, arrived[step, place])
        end = end + own[step, -1]
        ends.append(end)
    return _tables(pieces, own, np.array(begins), np.array(ends), (arrived, submitted, released))


def _tables(
    pieces: tuple[Piece, ...],
    own: Times,
    begins: Times,
    ends: Times,
    waits: tuple[Times, Times, Times],
) -> SyncedLaunch:
    num_steps, _, num_ranks = own.shape
    arrived, submitted, released = waits
    blocked = np.floor(released - arrived)
    phases = np.array([one.phase for one in pieces] + ["optimizer"])
    names = {"pass_id": "p", "segment": "s"}
    step, rank = (grid.ravel() for grid in np.indices((num_steps, num_ranks)))
    parts = {
        f"{name}_ns": own[:, phases == name].sum(axis=1).ravel()
        for name in ("data", "forward", "backward", "before_update", "optimizer")
    }
    base: dict[str, object] = {**names, "rank": rank, "step": step}
    steps = STEPS.frame(
        {
            **base,
            "warmup": False,
            "start_ns": begins.ravel(),
            "dur_ns": (ends - begins).ravel(),
            **parts,
            "blocked_ns": blocked.sum(axis=1).ravel().astype(np.int64),
            "outside_ns": 0,
            "samples": 8,
            "loss": np.nan,
            "num_steps": 1,
            "evaluation": False,
            "clock_error_ns": 0,
        }
    )
    step, place, rank = (grid.ravel() for grid in np.indices(arrived.shape))
    base = {**names, "rank": rank, "step": step, "clock_error_ns": 0}
    times = {"start_ns": arrived.ravel(), "dur_ns": blocked.ravel()}
    events = EVENTS.frame(
        {
            **base,
            **times,
            "source": "recorder",
            "phase": "part",
            "activity": "blocked",
            "collective": "",
            "tensor": "",
            "occurrence": 0,
            "fusion_id": -1,
            "size_bytes": pd.array([None] * len(rank), dtype="Int64"),
        }
    )
    table = WAITS.frame(
        {
            **base,
            **times,
            "number": place,
            "kind": np.array([one.kind for one in pieces])[place],
            "num_ranks": np.full(len(rank), num_ranks),
            "submitted_ns": submitted.ravel().astype(np.int64),
        }
    )
    job_steps = JOB_STEPS.frame(
        {
            **names,
            "step": np.arange(num_steps),
            "end_ns": ends.max(axis=1),
            "dur_ns": (ends.max(axis=1) - begins.max(axis=1)),
            "num_steps": 1,
            "steady": np.arange(num_steps) > 0,
        }
    )
    return SyncedLaunch(steps, events, job_steps, table)
