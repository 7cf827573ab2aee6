"""Why a segment of a run has no result, as the manifest holds it.

Tested in ``tests/rundir/test_manifest.py``.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a segment has no result: one sentence, and the evidence for it.

    ``rank`` is the rank that failed first where that is known, and ``host`` where it ran;
    ``exit_code`` and ``signal`` are that process's; ``lines`` are the last lines printed that
    explain it.
    """

    reason: str
    rank: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    lines: list[str] = field(default_factory=list)
    host: str | None = None
