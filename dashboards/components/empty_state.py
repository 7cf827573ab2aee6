"""What stands in place of a page or a part that has no data: why, and how to get them."""

import dash_mantine_components as dmc

from hvdprof.dashboards.components.copied_text import copied_text


def empty_state(why: str, *commands: str, about: str = "") -> dmc.Paper:
    """A card that says what is missing and which command brings it.

    Args:
        why: What is not there and why, one sentence.
        commands: Command lines that make the data, each with a button that copies it.
        about: What the page shows once they are there, one sentence.
    """
    lines = [
        copied_text(command, dmc.Code(command, block=True, className="keep-lines"))
        for command in commands
    ]
    said = [dmc.Text(why, fw=600)] + ([dmc.Text(about, size="sm")] if about else [])
    return dmc.Paper(
        dmc.Stack([*said, *lines], gap="xs"),
        withBorder=True,
        p="lg",
        radius="md",
        className="empty",
    )


def no_run() -> dmc.Paper:
    """The dashboard without any run."""
    return empty_state(
        "There is no run here yet.",
        "hvdprof bench --preset quick",
        about="This page shows a run as soon as there is one in the folder that was opened.",
    )
