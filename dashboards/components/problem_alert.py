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
    )
