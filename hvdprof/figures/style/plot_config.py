"""The settings of every figure in a browser: what its mode bar offers.

Tested in ``tests/dashboards/test_browsing.py`` and ``tests/report/document/test_html_report.py``.
"""

BUTTONS_REMOVED: tuple[str, ...] = ("sendChartToCloud", "select2d", "lasso2d", "autoScale2d")
"""Buttons of plotly.js that no figure has."""

PLOT_CONFIG: dict[str, object] = {
    "displaylogo": False,
    "responsive": True,
    # plotly.js uploads a figure, names of tensors and hosts included, from a button of its own.
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "modeBarButtonsToRemove": list(BUTTONS_REMOVED),
}
"""plotly's settings of a figure, without a button that sends the figure anywhere."""
