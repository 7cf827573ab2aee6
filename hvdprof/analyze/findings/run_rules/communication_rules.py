"""Rules on how collectives are cut and covered, from Horovod's timeline beside recordings.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice, set_to
from hvdprof.analyze.findings.evidence import Evidence, is_base
from hvdprof.analyze.findings.finding import SMALLEST_COST, Finding, severity_of_cost
from hvdprof.analyze.findings.horovod_cycle import CYCLE_TIME, cycle_ms, longer_cycles
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import place_name, rows_by_launch
from hvdprof.model.tables.collective_tables import COLLECTIVES, OVERLAP
from hvdprof.rundir.plan import DDP_ENGINE

SMALL_MESSAGE_BYTES = 64 * 1024
MANY_MESSAGES = 20
FEW_EXECUTIONS = 2.0
LITTLE_OVERLAP = 0.2
SPLIT_BYTES = 8 * 2**20
_LAUNCH = ["pass_id", "segment"]


def many_small_messages(evidence: Evidence) -> Iterator[Finding]:
    """Many small executions per step: one finding for the run, on the launch with the most."""
    steady = _steady(evidence)
    if steady.empty:
        return
    small = _bytes(steady) < SMALL_MESSAGE_BYTES
    steps = steady["step"].to_numpy()
    found = [
        (float(small[rows].sum() / num_steps), len(rows) / num_steps, key)
        for key, rows in sorted(rows_by_launch(steady), key=lambda launch: launch[0])
        if (num_steps := len(np.unique(steps[rows])))
        and small[rows].sum() >= max(MANY_MESSAGES * num_steps, 0.5 * len(rows))
    ]
    if not found:
        return
    few, every, key = max(found, key=lambda one: one[0])
    launch = _segment(evidence, dict(zip(_LAUNCH, key, strict=True)))
    yield Finding(
        "many-small-messages",
        "warning",
        "collectives",
        "many small collectives",
        f"{place_name(launch['model'], int(launch['size']), str(launch['engine']))}: "
        f"{few:.0f} of {every:.0f} collectives per step carry less than "
        f"{units.byte_size(SMALL_MESSAGE_BYTES)}. Their latency dominates, not the bandwidth."
        f"{_in_others(len(found) - 1)}",
        _fuse_more(evidence, launch),
        "certain",
    )


def _in_others(number: int) -> str:
    if not number:
        return ""
    return f" The same holds for {units.counted(number, 'other launch')}."


def _segment(evidence: Evidence, launch: FrameRow) -> FrameRow:
    segments = evidence.run.segments
    own = (segments["pass_id"] == launch["pass_id"]) & (segments["segment"] == launch["segment"])
    row: FrameRow = segments[own].to_dict("records")[0]
    return row


def _fuse_more(evidence: Evidence, launch: FrameRow) -> Advice:
    place = (launch["model"], launch["size"], launch["engine"])
    step_ns = [
        float(cell["step_time_median_ns"])
        for cell in evidence.cells(oversubscribed=True)
        if is_base(cell) and (cell["model"], cell["np"], cell["engine"]) == place
    ]
    cycles = longer_cycles(cycle_ms(evidence), step_ns[0] / 1e6) if step_ns else []
    if not cycles:
        return advice("pass groups= to DistributedOptimizer, so that Horovod fuses more gradients")
    return set_to(
        f"{CYCLE_TIME}={cycles[0]:g}",
        " or pass groups= to DistributedOptimizer, so that Horovod fuses more gradients",
        "Measure both.",
    )


_SMALLER_BUFFER = set_to(
    "HOROVOD_FUSION_THRESHOLD=16777216",
    ", so that smaller executions start earlier",
    "Alternatively, pass groups= to DistributedOptimizer. Compare both with `{measure}`.",
)


def fusion_too_large(evidence: Evidence) -> Iterator[Finding]:
    """All gradients in one or two executions that begin when nothing is left to cover them."""
    overlap = evidence.table(OVERLAP.name)
    if overlap.empty:
        return
    covered = {key: overlap.iloc[rows] for key, rows in rows_by_launch(overlap)}
    steady = _steady(evidence)
    steps, sizes = steady["step"].to_numpy(), np.nan_to_num(_bytes(steady))
    for key, rows in sorted(rows_by_launch(steady), key=lambda launch: launch[0]):
        if key not in covered:
            continue
        _, of_step, counts = np.unique(steps[rows], return_inverse=True, return_counts=True)
        number = float(np.median(counts))
        bytes_per_step = float(np.median(np.bincount(of_step, sizes[rows])))
        if number > FEW_EXECUTIONS or bytes_per_step < SPLIT_BYTES:
            continue
        shares = _shares(covered[key], evidence.run.steps, key)
        if shares["overlapped"] < LITTLE_OVERLAP and shares["exposed"] >= SMALLEST_COST:
            payload = units.byte_size(int(bytes_per_step))
            yield Finding(
                "fusion-too-large",
                severity_of_cost(shares["exposed"]),
                f"{key[0]} {key[1]}",
                "collectives too large to overlap with backward",
                f"{key[0]}: {payload} per step travel in "
                f"{units.counted(round(number), 'execution')}. "
                f"Backward covers {units.percent(shares['overlapped'])} of them, "
                "because they start when it ends.",
                _SMALLER_BUFFER.formatted(measure=evidence.measure),
                "possible",
                cost_share=shares["exposed"],
                cost_ns=shares["exposed_ns"],
            )


def _bytes(rows: pd.DataFrame) -> NDArray[np.float64]:
    return rows["size_bytes"].to_numpy(dtype=np.float64, na_value=np.nan)


def _steady(evidence: Evidence) -> pd.DataFrame:
    table = evidence.table(COLLECTIVES.name)[[*_LAUNCH, "step", "warmup", "size_bytes"]]
    if table.empty:
        return table
    segments = evidence.run.segments
    # What DDP puts into a bucket is none of Horovod's settings, and one rank sends nothing.
    others = segments[((segments["engine"] == DDP_ENGINE) | (segments["size"] == 1)).to_numpy()]
    left_out = set(others[_LAUNCH].astype(str).itertuples(index=False, name=None))
    counted = ((table["step"] >= 0) & ~table["warmup"]).to_numpy(dtype=bool, copy=True)
    for key, rows in rows_by_launch(table):
        counted[rows] &= key not in left_out
    return table[counted]


def _shares(overlap: pd.DataFrame, steps: pd.DataFrame, key: tuple[str, str]) -> dict[str, float]:
    own = steps[(steps["pass_id"] == key[0]) & (steps["segment"] == key[1])]
    names = ["rank", "step"]
    joined = overlap.merge(own.loc[~own["warmup"], [*names, "dur_ns"]], on=names)
    communication = float(joined["communication_ns"].sum())
    blocking = joined["blocking_exposed_ns"]
    length = float(joined["dur_ns"].sum())
    return {
        "overlapped": float(joined["overlapped_ns"].sum()) / communication if communication else 1,
        "exposed": float(blocking.sum()) / length if length else 0,
        "exposed_ns": float(blocking.mean()) if len(joined) else 0,
    }
