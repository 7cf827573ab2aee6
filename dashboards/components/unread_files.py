"""The files of a folder of which a page says nothing.

Tested in ``tests/dashboards/test_overview.py``.
"""

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.empty_state import empty_state
from hvdprof.model.file_page import FilePage

_MOST_NAMED = 6


def unread_files(files: Sequence[FilePage]) -> list[Component]:
    """Why files are left out, and which files hold nothing known."""
    reasons = list(dict.fromkeys(file.left_out for file in files if file.left_out))
    others = [file.file for file in files if not file.left_out]
    parts: list[Component] = [empty_state(reason) for reason in reasons[:_MOST_NAMED]]
    if more := len(reasons) - len(parts):
        parts.append(empty_state(f"{units.counted(more, 'more file')} left out."))
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
