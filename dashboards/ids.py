"""Ids of the components that callbacks name; each page's own begin with the page's name."""

LOCATION = "location"
HEADER = "header"
HEADER_DRAWN = "header-drawn"
NOTICE = "notice"
PAGE = "page"
DRAWN = "drawn"
CLOCK = "clock"

CONTROL = "view-control"
"""Type of the ids of ``components.view_control``; their other parts are ``key`` and ``shown``."""

FIGURE_SAVE = "figure-save"
TABLE = "table"
TABLE_SAVE = "table-save"
