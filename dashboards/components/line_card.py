"""The lines of code behind the causes of a cell, with their source where it lies unchanged."""

from datetime import datetime

import dash_mantine_components as dmc
from dash.development.base_component import Component

from hvdprof.dashboards.components.section import section
from hvdprof.model.run import RunAnalysis
from hvdprof.report.screen.source_line import source_line
from hvdprof.report.sections.code_lines import cause_rows, lines_behind_causes

_ABOUT = (
    "Lines that explain the causes. Their source is shown where the file lies as it lay when the "
    "run began."
)


def line_card(analysis: RunAnalysis) -> dmc.Paper | None:
    """What explains the causes of the verdict's cell, with the source; None without a line."""
    causes = lines_behind_causes(analysis).to_dict("records")
    begun = analysis.run.manifest.created_at
    parts: list[Component] = []
    for cause, texts in zip(causes, cause_rows(analysis), strict=True):
        name, place, time, what, *_ = texts
        parts.append(dmc.Text(f"{name}: {place}, {time}, against: {what}", size="sm"))
        place_of_source = str(cause["file"]), int(cause["line"])
        # Files of other recorders do not say when their run began.
        if begun and (source := source_line(*place_of_source, datetime.fromisoformat(begun))):
            parts.append(dmc.Code(source, block=True, className="keep-lines"))
    return section("Lines of code", *parts, about=_ABOUT) if parts else None
