"""What stands in place of a page or a part that has no data: why, and how to get them."""

import dash_mantine_components as dmc


def empty_state(why: str, *commands: str, about: str = "") -> dmc.Paper:
    """A card that says what is missing and which command brings it.

    Args:
        why: What is not there and why, one sentence.
        commands: Command lines that make the data, each with a button that copies it.
        about: What the page shows once they are there, one sentence.
    """
    lines = [
        dmc.Group(
            [
                dmc.Code(command, block=True, className="grow keep-lines"),
                dmc.CopyButton(value=command, children="Copy", size="compact-sm"),
            ],
            gap="xs",
            wrap="nowrap",
        )
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
