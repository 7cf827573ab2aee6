"""Ids of the components that callbacks name; each page's own begin with the page's name."""

LOCATION = "location"
RUN = "run"
PAGE = "page"

OVERVIEW_CONTENT = "overview-content"
