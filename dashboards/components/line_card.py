"""The lines of code behind the causes of a cell, with their source where it lies unchanged."""

from datetime import datetime
from itertools import islice
from pathlib import Path

import dash_mantine_components as dmc
from dash.development.base_component import Component

from hvdprof.dashboards.components.section import section
from hvdprof.model.run import RunAnalysis
from hvdprof.report.sections.code_lines import cause_rows, lines_behind_causes
from hvdprof.rundir.regular_file import open_regular

_LONGEST = 4_000
"""Characters of a line of source from which it is data, not code."""

_ABOUT = (
    "Lines that explain the causes. Their source is shown where the file lies as it lay when the "
    "run began."
)


def line_card(analysis: RunAnalysis) -> dmc.Paper | None:
    """What explains the causes of the verdict's cell, with the source; None without a line."""
    causes = lines_behind_causes(analysis).to_dict("records")
    begun = datetime.fromisoformat(analysis.run.manifest.created_at)
    parts: list[Component] = []
    for cause, texts in zip(causes, cause_rows(analysis), strict=True):
        name, place, time, what, *_ = texts
        parts.append(dmc.Text(f"{name}: {place}, {time}, against: {what}", size="sm"))
        if source := source_line(str(cause["file"]), int(cause["line"]), begun):
            parts.append(dmc.Code(source, block=True, className="keep-lines"))
    return section("Lines of code", *parts, about=_ABOUT) if parts else None


def source_line(file: str, line: int, begun: datetime) -> str:
    """A line of a Python file without its indent; empty where the file has changed or is not there.

    Args:
        file: Its path, as recorded.
        line: The line, from 1.
        begun: When the run began: a file that was written later is another one.
    """
    path = Path(file)
    # A run directory of a stranger may name any file.
    if path.suffix != ".py" or not path.is_absolute() or line < 1:
        return ""
    try:
        if path.stat().st_mtime > begun.timestamp():
            return ""
        with open_regular(path) as source:
            text = next(islice(source, line - 1, line), b"").decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""
    return text if len(text) <= _LONGEST else ""
