"""How far a run is that is being measured.

Tested in ``tests/dashboards/test_diagnosis.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hvdprof import units
from hvdprof.rundir.manifest import NOT_ENDED, Manifest, PassRecord, Status


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress as a sentence, ``1 of 3 passes ended, about 1 min left.``, and as a share 0..1."""

    text: str
    share: float


def progress_of(manifest: Manifest) -> Progress | None:
    """Passes that ended, the present one, and the time that is left; None of an ended run."""
    if manifest.status != Status.RUNNING:
        return None
    ended = [record for record in manifest.passes if record.status not in NOT_ENDED]
    total = len(manifest.passes)
    now = next((record.id for record in manifest.passes if record.status == Status.RUNNING), "")
    texts = [f"{units.count(len(ended))} of {units.count(total)} passes ended"]
    if now:
        texts.append(f"now {now}")
    if left := _left(ended, total):
        texts.append(f"about {left} left")
    return Progress(f"{', '.join(texts)}.", len(ended) / total if total else 0.0)


def _left(ended: Sequence[PassRecord], total: int) -> str:
    """The mean duration of a pass times the passes that are left."""
    durations = [record.duration_s for record in ended if record.duration_s]
    if not durations:
        return ""
    return units.duration((total - len(ended)) * sum(durations) / len(durations))
