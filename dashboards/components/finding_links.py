"""Links to what shows a finding or a number: a place on the time axis, the numbers behind it.

Tested in ``tests/dashboards/test_diagnosis.py``.
"""

from collections.abc import Mapping, Sequence

import dash_mantine_components as dmc
import pandas as pd
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.view import PASS_KEY, View
from hvdprof.figures.typical_step import step_windows, typical_step
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import of_base_cell, setting_of_row
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.run import RunAnalysis

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


_TYPICAL = "Show in timeline"
_RANKS = ("/ranks", "Ranks")
_COMMUNICATION = ("/communication", "Communication")
_COMPARE = ("/compare", "Compare")
_NCCL = ("/nccl", "NCCL")

_PAGE_OF: dict[str, tuple[str, str]] = {
    "persistent-straggler": _RANKS,
    "transient-straggler": _RANKS,
    "stalled-steps": _RANKS,
    "rotating-stragglers": _RANKS,
    "stalled-tensors": _RANKS,
    "input-bound": _RANKS,
    "compute-inflation": _RANKS,
    "outside-phases": _RANKS,
    "size-cliff": _COMPARE,
    "fp16-costs": _COMPARE,
    "adasum-costs": _COMPARE,
    "exposed-transfer": _COMMUNICATION,
    "shared-memory-transfer": _COMMUNICATION,
    "gloo-transfer": _COMMUNICATION,
    "below-network": _COMMUNICATION,
    "network-bound": _COMMUNICATION,
    "cycle-bound": _COMMUNICATION,
    "small-buckets": _COMMUNICATION,
    "cycle-too-long": _COMMUNICATION,
    "fusion-too-small": _COMMUNICATION,
    "fusion-too-large": _COMMUNICATION,
    "many-small-messages": _COMMUNICATION,
    "slow-host-link": _COMMUNICATION,
    "far-host": _COMMUNICATION,
}
"""The page with the numbers behind a rule; those on NCCL's logs begin with ``nccl-``."""


def finding_links(analysis: RunAnalysis, view: View, finding: FrameRow) -> Sequence[Component]:
    """The links of a finding: a typical step where it is about a cell, and the page on its rule.

    Args:
        analysis: The finished analysis.
        view: The view of the page with the links.
        finding: A row of FINDINGS.
    """
    links: list[Component] = []
    is_of_cell = bool(finding["model"]) and not pd.isna(finding["np"])
    if is_of_cell:
        links += _typical_step(analysis, view, finding)
    rule = str(finding["id"])
    page = _NCCL if rule.startswith("nccl-") else _PAGE_OF.get(rule)
    if page is not None:
        path, title = page
        target = view.at(path)
        if is_of_cell:
            # The cell of the finding, whichever the page of the link shows.
            model, num_ranks = str(finding["model"]), int(finding["np"])
            engine = str(finding["engine"])
            own = of_base_cell(analysis.scaling, model, num_ranks, engine)
            setting = setting_of_row(own.iloc[0]) if len(own) else ""
            target = target.changed(np=num_ranks, model=model, toggles=setting)
        links.append(dmc.Anchor(title, href=target.href, size="sm"))
    return links


def _typical_step(analysis: RunAnalysis, view: View, finding: FrameRow) -> list[Component]:
    found = typical_step(analysis, finding)
    if found is None:
        return []
    launch, step = found
    windows = step_windows(analysis.run, launch, [step])
    link = timeline_link(view, launch, step, windows, _TYPICAL)
    return [] if isinstance(link, str) else [link]
