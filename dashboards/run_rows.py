"""The rows of the list of runs: what manifests and analyses say, as texts and points.

Tested in ``tests/dashboards/test_runs.py``.
"""

import contextlib
import logging
import math
from collections.abc import Sequence
from datetime import UTC, datetime

from hvdprof import units
from hvdprof.dashboards.glance import Glance
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.errors import HvdprofError
from hvdprof.model.run import RunEntry
from hvdprof.report.screen.tiles import BAD

_LOG = logging.getLogger(__name__)
MOST_BYTES = 4_000_000
"""Standalone files above it are read when they are opened."""

_SPARK_WIDTH, _SPARK_HEIGHT = 96, 20


def rows_of(runs: RunStore) -> list[dict[str, object]]:
    """A row for each run, newest first: its manifest, and what is known of its analysis."""
    rows = [_row(runs, run_id) for run_id in runs.ids]
    return sorted(rows, key=lambda row: str(row["started"]), reverse=True)


def _row(runs: RunStore, run_id: str) -> dict[str, object]:
    try:
        entry, known = runs.entry(run_id), runs.known_glance(run_id)
        return _texts(run_id, entry, known) if entry else _of_file(runs, run_id, known)
    except HvdprofError as error:
        return _texts(run_id, None, None) | {"verdict": error.message, "tone": BAD}
    except Exception as error:
        # One run with unusual data takes no other from the list.
        _LOG.exception("The row of %s could not be made", run_id)
        status = f"not shown: {type(error).__name__}; the log of the dashboard has the traceback"
        return _texts(run_id, None, None) | {"verdict": status, "tone": BAD}


def is_small(runs: RunStore, run_id: str) -> bool:
    """Whether a run directory or a standalone file is read for the list, before it is opened."""
    path = runs.path(run_id)
    if runs.entry(run_id) is not None:
        return True
    left = MOST_BYTES
    for file in [path] if path.is_file() else path.rglob("*"):
        # A link may lead nowhere, and a file be gone by now.
        with contextlib.suppress(OSError):
            left -= file.stat().st_size
        if left < 0:
            return False
    return True


def _of_file(runs: RunStore, run_id: str, known: Glance | None) -> dict[str, object]:
    """The row of standalone files: the verdict on them, once it is known."""
    if known is not None:
        said = known.sentence
    elif runs.was_analyzed(run_id):
        said = "no verdict: open to see why"
    else:
        said = "not analyzed yet" if is_small(runs, run_id) else "open to analyze"
    return _texts(run_id, None, known) | {"verdict": said, "tone": known.tone if known else ""}


def _texts(run_id: str, entry: RunEntry | None, known: Glance | None) -> dict[str, object]:
    started = entry.created_at if entry else ""
    row: dict[str, object] = {
        "id": run_id,
        "name": run_id,
        "href": View("/", {"run": run_id}).href,
        "started": started,
        "age": age_text(started, datetime.now(UTC)),
        "what": ", ".join(entry.models) if entry else "standalone file",
        "np": ", ".join(map(str, entry.sizes)) if entry else "",
        "verdict": status_of(entry) if entry else "",
        "tone": BAD if entry and entry.has_failed else "",
    }
    if known is None or known.verdict is None:
        if entry and entry.is_done:
            row["verdict"] = "done, not analyzed yet"
        return row
    verdict = known.verdict
    if entry and entry.is_done:
        row |= {"verdict": known.sentence, "tone": known.tone}
    elif entry and not entry.is_open:
        # "failed: Failed at np=2" says it twice.
        is_said = entry.has_failed and verdict.parts.lead
        sentence = known.sentence if is_said else f"{status_of(entry)}: {known.sentence}"
        row |= {"verdict": sentence, "tone": BAD}
    if not math.isnan(verdict.efficiency):
        ends = verdict.efficiency, verdict.efficiency_low, verdict.efficiency_high
        bar = [None if math.isnan(end) else min(max(end, 0.0), 1.0) for end in ends]
        row |= {"efficiency": verdict.efficiency, "bar": bar}
        row["efficiency_text"] = units.percent_interval(*ends)
    return row | {"trust": known.trust, "steps": _points(known.steps)}


def status_of(entry: RunEntry) -> str:
    """The status of a run with its progress while it is measured, or why it cannot be read."""
    if entry.problem:
        return entry.problem
    if entry.num_ended < entry.num_passes:
        ended = units.count(entry.num_ended)
        return f"{entry.status}: {ended} of {units.count(entry.num_passes)} passes"
    return entry.status


def age_text(started: str, now: datetime) -> str:
    """How long ago a run began, ``3 h ago``; empty where its manifest has no time with a zone."""
    try:
        seconds = (now - datetime.fromisoformat(started)).total_seconds()
    except (ValueError, TypeError):
        # A damaged or foreign manifest: an age would be invented.
        return ""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{units.count(seconds // size)} {unit} ago"
    return "just now"


def _points(steps: Sequence[float]) -> str:
    """The line of the step times as points of an SVG, 0 at the foot."""
    across = _SPARK_WIDTH / max(len(steps) - 1, 1)
    down = _SPARK_HEIGHT - 1
    return " ".join(
        f"{place * across:.0f},{down - (down - 1) * step:.1f}" for place, step in enumerate(steps)
    )
