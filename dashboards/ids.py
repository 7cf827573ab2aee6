"""Ids of the components in callbacks; those of a page start with its name."""

LOCATION = "location"
HEADER = "header"
HEADER_DRAWN = "header-drawn"
NOTICE = "notice"
PAGE = "page"
DRAWN = "drawn"
CLOCK = "clock"

CONTROL = "view-control"
"""Type of the ids of ``components.view_control``; their other parts are ``key`` and ``shown``."""

TIMELINE = "timeline"
TIMELINE_ANSWER = "timeline-answer"

RUNS_GRID = "runs-grid"
RUNS_SEARCH = "runs-search"
RUNS_COMPARE = "runs-compare"
RUNS_HISTORY = "runs-history"
RUNS_DELETE = "runs-delete"
RUNS_NOTE = "runs-note"
RUNS_TICK = "runs-tick"

FIGURE_SAVE = "figure-save"
TABLE = "table"
TABLE_SAVE = "table-save"
TABLE_COPY = "table-copy"
ROWS_SAVE = "rows-save"
