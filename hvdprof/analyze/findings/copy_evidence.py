"""What was seen of copies of batches to the GPU: how long, how large, from which memory.

Tested in ``tests/analyze/findings/test_copy_evidence.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice
from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.recording import sample_format as names

LEAST_EXPOSED = 0.05
"""Of the time, between batch and forward pass, from which on a copy is worth a change."""

LEAST_RATE = 1e9
"""Bytes per second; below that, most of the time may be something else than the copy."""

HALF = 0.5
"""From this share of the bytes on they are said to be in pageable memory."""

_PIN = advice(
    "set pin_memory=True in the DataLoader, and copy with .to(device, non_blocking=True)",
    "The host copies pageable memory into pinned memory first, and waits for it.",
)
_AHEAD = advice(
    "copy the next batch on a CUDA stream of its own while this one computes",
    "Or copy less: uint8 images, converted and normalized on the GPU.",
)
_NOTHING = Advice()


@dataclass(frozen=True, slots=True)
class CopyEvidence:
    """A sentence on the copies, what to do, and their share of the time; empty and 0 without."""

    sentence: str = ""
    advice: Advice = _NOTHING
    share: float = 0.0


def copy_evidence(evidence: Evidence, cell: Cell, ranks: Sequence[int] = ()) -> CopyEvidence:
    """What the GPUs of ranks do between a batch and its forward pass, in which it is copied.

    Args:
        evidence: The run.
        cell: A row of SCALING.
        ranks: The ranks; all by default.
    """
    rows = evidence.rows_of(evidence.table(RANK_MACHINE.name), cell)
    if ranks:
        rows = rows[rows["rank"].isin(list(ranks))]
    means = rows.groupby(rows["measure"].astype(str))["mean"].mean()
    share, batches, copied, pageable = (
        float(means.get(name, NAN))
        for name in (names.COPY_GPU, names.BATCHES, names.COPIED, names.PAGEABLE)
    )
    if not (share > 0 and batches > 0 and copied > 0):
        return CopyEvidence()
    rate = copied / share
    memory = "pageable" if pageable >= HALF * copied else "pinned"
    sentence = (
        f"From a batch of {ranks_named(ranks) or 'a rank'} ({units.byte_size(copied / batches)} in "
        f"{memory} memory) to its forward pass the GPU takes "
        f"{units.milliseconds(1e9 * share / batches)}"
    )
    if share < LEAST_EXPOSED:
        return CopyEvidence(f"{sentence}.", share=share)
    sentence += f", {units.byte_size(rate)}/s if all of it is the copy."
    if rate < LEAST_RATE:
        return CopyEvidence(sentence, share=share)
    return CopyEvidence(sentence, _PIN if memory == "pageable" else _AHEAD, share)
