"""A failure with its hint, in place of the content."""

import dash_mantine_components as dmc

from hvdprof.errors import HvdprofError


def problem_alert(error: HvdprofError) -> dmc.Alert:
    """The message of an error and, where there is one, its hint."""
    return dmc.Alert(
        dmc.Text(error.hint, className="keep-lines") if error.hint else None,
        title=error.message,
        color="red",
        variant="light",
        className="problem",
    )


def fault_alert(title: str, error: Exception) -> dmc.Alert:
    """A page that failed by a bug of hvdprof: the error, and how to report it.

    Args:
        title: Name of the page.
        error: The exception.
    """
    return dmc.Alert(
        dmc.Text(
            f"{type(error).__name__}: {error}. The terminal that runs the dashboard shows the "
            "traceback; report it together with `hvdprof doctor`. The other pages still work.",
            className="keep-lines",
        ),
        title=f"The page {title} failed: this is a bug in hvdprof, not a problem of your run.",
        color="red",
        variant="light",
        className="problem",
    )
