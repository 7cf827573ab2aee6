"""Links from a number to its place on the time axis."""

from collections.abc import Mapping

import dash_mantine_components as dmc

from hvdprof import units
from hvdprof.dashboards.view import PASS_KEY, View
from hvdprof.model.launch_key import LaunchKey

_TIMELINE = "/timeline"


def timeline_link(
    view: View,
    launch: LaunchKey,
    step: int,
    windows: Mapping[int, tuple[int, int]],
    text: str = "timeline",
) -> dmc.Anchor | str:
    """A link to a step of a launch in the timeline; a dash where its place is unknown.

    Args:
        view: The view of the page with the link: its run and number of ranks stay.
        launch: The launch (pass_id, segment).
        step: Number of the step.
        windows: Start and end of the steps of that launch, of ``figures.typical_step``.
        text: Text of the link.
    """
    if step not in windows:
        return units.MISSING
    first_ns, last_ns = windows[step]
    where: dict[str, str | int] = {PASS_KEY: launch[0], "from": first_ns, "to": last_ns}
    target = view.at(_TIMELINE).changed(**where)
    return dmc.Anchor(text, href=target.href, size="sm")
