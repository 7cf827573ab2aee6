"""Runs as texts and points: the rows of the list of runs, and the sides of a comparison.

Tested in ``tests/dashboards/test_runs.py`` and ``tests/dashboards/test_compare.py``.
"""

import contextlib
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pandas as pd
from dash import html
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.api.run_entries import RunEntry
from hvdprof.dashboards.components.section import fact
from hvdprof.dashboards.glance import Glance
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.errors import HvdprofError
from hvdprof.model.cell_key import CELL_KEY, setting_name, with_engine
from hvdprof.model.run import RunAnalysis
from hvdprof.report.screen.tiles import (
    BAD,
    EFFICIENCY_FACT,
    STEP_TIME_FACT,
    STEPS_FACT,
    THROUGHPUT_FACT,
    efficiency_text,
    throughput_text,
    verdict_cell,
)

_LOG = logging.getLogger(__name__)
MOST_BYTES = 4_000_000
"""Standalone files above it are read when they are opened."""

_SPARK_WIDTH, _SPARK_HEIGHT = 96, 20

HEADS = (
    *("configuration", "run", "samples/s", "efficiency", "step, median", "steady steps", "blocked"),
)

_BETWEEN = "|"


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


@dataclass(frozen=True, slots=True)
class Side:
    """One side: a cell of a run, its row of SCALING and its rows of WATERFALL."""

    run_id: str
    label: str
    scaling: pd.Series
    waterfall: pd.DataFrame


def cells_of(analysis: RunAnalysis) -> dict[str, pd.Series]:
    """The measured cells of Horovod and DDP, by their text in the address."""
    rows = analysis.scaling[with_engine(analysis.scaling)]
    return {_BETWEEN.join(str(row[key]) for key in CELL_KEY): row for _, row in rows.iterrows()}


def names_in(cell: str) -> list[str]:
    """The parts of a cell in the order of ``CELL_KEY``; a script name can hold any character."""
    return cell.rsplit(_BETWEEN, len(CELL_KEY) - 1)


def cell_text(cell: str) -> str:
    """A cell as texts name it."""
    model, num_ranks, *setting = names_in(cell)
    return f"{model} np={num_ranks}, {setting_name(*setting)}"


def side_of(analysis: RunAnalysis, run_id: str, cell: str) -> Side:
    """The side of a cell, by its text in the address."""
    row = cells_of(analysis)[cell]
    waterfall = analysis.table("waterfall")
    is_own = pd.Series(True, index=waterfall.index)
    for key in CELL_KEY:
        is_own &= waterfall[key] == row[key]
    return Side(run_id, cell_text(cell), row, waterfall[is_own.to_numpy(dtype=bool)])


def is_main_cell(analysis: RunAnalysis, cell: str) -> bool:
    """Whether a cell is that of the verdict, whose numbers other pages show too."""
    own = verdict_cell(analysis)
    return own is not None and all(
        str(own[key]) == str(cells_of(analysis)[cell][key]) for key in CELL_KEY
    )


def marked(numbers: Sequence[str]) -> list[Component | str]:
    """The numbers that other pages show too, each with its name for the test that compares them."""
    names = {
        "samples/s": THROUGHPUT_FACT,
        "efficiency": EFFICIENCY_FACT,
        "step, median": STEP_TIME_FACT,
        "steady steps": STEPS_FACT,
    }
    return [
        html.Span(text, **fact(names[head])) if head in names else text
        for head, text in zip(HEADS, numbers, strict=True)
    ]


def saved_sides(sides: Sequence[Side]) -> pd.DataFrame:
    """The rows of SCALING of these sides, with the run of each."""
    rows = pd.DataFrame([side.scaling for side in sides]).reset_index(drop=True)
    rows.insert(0, "run", [side.run_id for side in sides])
    return rows


def numbers_of(side: Side) -> tuple[str, ...]:
    """The row of a side in the order of ``HEADS``."""
    row = side.scaling
    numbers = row.to_dict()
    return (
        side.label,
        side.run_id,
        throughput_text(numbers),
        efficiency_text(numbers),
        units.milliseconds(row["step_time_median_ns"]),
        units.count(row["num_steps"]),
        f"{units.milliseconds(row['blocked_ns'])}, {units.percent(row['blocked_share'])}",
    )
