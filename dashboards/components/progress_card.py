"""A run that is being measured: how far it is, and what it measures now.

Tested in ``tests/dashboards/test_overview.py``.
"""

import dash_mantine_components as dmc

from hvdprof.report.screen.progress import Progress


def progress_card(progress: Progress) -> dmc.Paper:
    """The passes that ended as a sentence and as a bar."""
    bar: dict[str, str] = {"aria-label": "Passes that ended"}
    return dmc.Paper(
        dmc.Stack(
            [
                dmc.Text("Being measured. This page follows the run.", fw=600, size="sm"),
                dmc.Text(progress.text, size="sm"),
                dmc.Progress(value=100 * progress.share, **bar),
            ],
            gap=4,
        ),
        withBorder=True,
        p="xs",
        radius="md",
        className="progress",
    )
