"""Findings, worst first, and links to what shows them: a place in time, the numbers behind.

Tested in ``tests/dashboards/test_diagnosis.py``.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import dash_mantine_components as dmc
import numpy as np
import pandas as pd
from dash import html
from dash.development.base_component import Component
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.dashboards.components.section import HIDDEN, attributes, copied_text, folded
from hvdprof.dashboards.components.term_link import linked_terms, with_code
from hvdprof.dashboards.view import PASS_KEY, View
from hvdprof.figures.typical_step import step_windows, typical_step
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import LaunchKey, of_base_cell, setting_of_row, short_name
from hvdprof.model.run import RunAnalysis
from hvdprof.report.finding_texts import FindingTexts, finding_texts

_FIRST = 5
"""Findings with a line of their own; the others stand behind one."""

SEVERITY_ICONS: dict[str, str] = {"error": "✖", "warning": "▲", "note": "●"}
"""A shape beside the colour of each severity."""

LinksOf = Callable[[FrameRow], Sequence[Component]]

_TIMELINE = "/timeline"


def finding_list(findings: pd.DataFrame, links_of: LinksOf) -> list[Component]:
    """A folded line for each of the first findings, and the others behind one heading.

    Args:
        findings: Rows of ``FINDINGS`` in the order in which they are to be read.
        links_of: The links from a finding to the places that show it.
    """
    cards: list[Component] = [_card(row, links_of) for row in findings.to_dict("records")]
    if len(cards) <= _FIRST:
        return cards
    return [
        *cards[:_FIRST],
        folded(f"{units.count(len(cards) - _FIRST)} more", *cards[_FIRST:], look="finding"),
    ]


def folded_findings(title: str, findings: pd.DataFrame, links_of: LinksOf) -> html.Details:
    """All findings of a kind behind one heading, each folded."""
    cards = [_card(row, links_of) for row in findings.to_dict("records")]
    return folded(title, *cards, look="finding")


def is_of_cell(findings: pd.DataFrame, cell: FrameRow) -> NDArray[np.bool_]:
    """Mask of the findings on a cell or on the whole run; the toggles of the cell do not count."""

    def is_of(name: str, missing: object) -> NDArray[np.bool_]:
        values = findings[name].astype(object)
        values = values.where(values.notna(), missing)
        return values.isin([cell[name], missing]).to_numpy(dtype=bool)

    return is_of("model", "") & is_of("np", 0) & is_of("engine", "")


def _card(row: FrameRow, links_of: LinksOf) -> html.Details:
    texts = finding_texts(row)
    parts: list[Component] = [dmc.Text(linked_terms(texts.evidence), size="sm")]
    if texts.figures:
        parts.append(dmc.Text(texts.figures, size="sm", fw=600))
    if texts.quote:
        parts.append(dmc.Code(texts.quote, block=True, className="keep-lines"))
    if texts.action:
        parts += _action(texts)
    if links := links_of(row):
        parts.append(dmc.Group(list(links), gap="md"))
    cause = attributes(data_cause=str(row["cause_id"]))
    return html.Details(
        [_summary(row, texts), dmc.Stack(parts, gap=6, mt=6)],
        className=f"finding line severity-{texts.severity}",
        **cause,
    )


def _summary(row: FrameRow, texts: FindingTexts) -> html.Summary:
    icon = html.Span(f"{SEVERITY_ICONS[texts.severity]} ", className="severity", **HIDDEN)
    about = ", ".join(text for text in (_where(row), str(row["confidence"])) if text)
    cost_ns, share = float(row["cost_ns"]), float(row["cost_share"])
    time = "" if math.isnan(cost_ns) else units.milliseconds(cost_ns)
    cost = " · ".join(text for text in (time, texts.short_cost) if text)
    full = "0%" if math.isnan(share) else f"{100 * min(max(share, 0.0), 1.0):.0f}%"
    bar = html.Span(html.Span(style={"width": full}), className="finding-bar", **HIDDEN)
    return html.Summary(
        [
            icon,
            html.Span(f"{texts.severity}: ", className="unseen"),
            html.Span(texts.title, className="finding-title"),
            html.Span(about, className="about"),
            *([html.Span([bar, cost], className="finding-cost")] if cost else []),
        ]
    )


def _action(texts: FindingTexts) -> list[Component]:
    action = dmc.Text(with_code(texts.action), size="sm", className="keep-lines")
    if not texts.command:
        return [action]
    command = dmc.Code(texts.command, block=True, className="keep-lines")
    return [action, copied_text(texts.command, command)]


def _where(row: FrameRow) -> str:
    is_of_cell = bool(row["model"]) and not pd.isna(row["np"])
    return short_name(str(row["model"]), int(row["np"]), str(row["engine"])) if is_of_cell else ""


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
    """The links of a finding: a typical step where it is about a cell, and the page on its rule."""
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
