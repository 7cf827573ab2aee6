"""The files of a folder of which a page says nothing.

Tested in ``tests/dashboards/test_overview.py``.
"""

import shlex
from collections.abc import Sequence

import dash_mantine_components as dmc
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.model.file_page import PROFILER_TRACE, FilePage

_MOST_NAMED = 6


def unread_files(files: Sequence[FilePage]) -> list[Component]:
    """How traces of torch.profiler are opened, and which files hold nothing known."""
    traces = [file.file for file in files if file.kind.startswith(PROFILER_TRACE)]
    others = [file.file for file in files if file.file not in traces]
    parts: list[Component] = []
    if traces:
        parts.append(
            empty_state(
                f"{_listed(traces, 'trace')} of torch.profiler: the traces of one job are opened "
                "apart from other files.",
                f"hvdprof dashboard {shlex.quote(traces[0])}",
            )
        )
    if others:
        holds = "holds" if len(others) == 1 else "hold"
        text = f"{_listed(others, 'file')} {holds} nothing that hvdprof reads."
        parts.append(dmc.Text(text, size="sm", className="about"))
    return parts


def _listed(files: Sequence[str], noun: str) -> str:
    """The number of files and the names of the first, ``2 files (a.json, b.json)``."""
    more = len(files) - _MOST_NAMED
    names = ", ".join(files[:_MOST_NAMED]) + (f" and {units.count(more)} more" if more > 0 else "")
    return f"{units.counted(len(files), noun)} ({names})"
