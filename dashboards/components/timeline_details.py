"""Details of a click in the timeline: an event with its fused tensors, or a bin."""

import dash_mantine_components as dmc
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.fact_table import fact_table
from hvdprof.dashboards.components.section import section
from hvdprof.dashboards.timeline_window import window_of
from hvdprof.dashboards.view import View
from hvdprof.figures.timeline.event_details import EventFacts, bin_facts, event_facts
from hvdprof.figures.timeline.timeline_lanes import Lanes

_BINS = 1_500


def details_of(lanes: Lanes, view: View) -> dmc.Paper | dmc.Text:
    """The event or the bin in the address, or how to choose one."""
    row = view.whole("event")
    facts = None if row is None else event_facts(lanes, row)
    if facts is not None:
        return _event(facts)
    lane, at = view.whole("lane"), view.whole("at")
    if lane is not None and at is not None and 0 <= lane < len(lanes.names):
        width = max(window_of(view, lanes).length_ns // _BINS, 1)
        rows = bin_facts(lanes, lane, at, width)
        title = f"Around {units.milliseconds(at)}, {units.milliseconds(width)} wide"
        return section(
            title, fact_table(rows), about="Shares of that time; zoom in for single events."
        )
    return dmc.Text(
        "Click an event for its facts and the tensors fused with it.", className="about"
    )


def _event(facts: EventFacts) -> dmc.Paper:
    parts: list[Component] = [fact_table(facts.facts)]
    if facts.mates:
        tensors = "1 tensor" if facts.num_mates == 1 else f"{units.count(facts.num_mates)} tensors"
        parts.append(dmc.Text(f"Executed together: {tensors}", fw=600, size="sm"))
        parts.append(dmc.ScrollArea(fact_table(facts.mates), mah=320, type="auto"))
    return section(facts.title, *parts)
