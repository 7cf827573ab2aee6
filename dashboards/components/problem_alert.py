"""A failure that the reader can act on, in place of what was to be shown."""

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
    """A page that failed through a fault of hvdprof's own: what to report, and where it is told.

    Args:
        title: Name of the page.
        error: What went wrong.
    """
    return dmc.Alert(
        dmc.Text(
            f"{type(error).__name__}: {error}. The terminal that runs the dashboard says where; "
            "please report it together with `hvdprof doctor`. The other pages still work.",
            className="keep-lines",
        ),
        title=f"The page {title} failed: this is a fault of hvdprof, not of your run.",
        color="red",
        variant="light",
        className="problem",
    )
