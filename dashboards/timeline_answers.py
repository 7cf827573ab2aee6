"""What the timeline in the browser asks the server for, one request each, as JSON.

The requests are those of the address: a view is asked for with the same query that restores it.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace

import pandas as pd
from dash import Dash
from flask import Response, jsonify, request

from hvdprof.api.tables import large_executions
from hvdprof.dashboards.components.view_control import pass_of_launch
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import (
    View,
    Window,
    fitted,
    lane_kind_of,
    row_choice_of,
    selection_of,
    window_of,
)
from hvdprof.errors import HvdprofError, UnreadableInputError
from hvdprof.figures.timeline.counters import Executions, executions_of
from hvdprof.figures.timeline.event_details import (
    bin_facts,
    derived_facts,
    event_facts,
    timeline_passes,
)
from hvdprof.figures.timeline.event_search import (
    Hits,
    Opening,
    events_named,
    lane_notes,
    opening_of,
    segment_spans,
    steps_of_kind,
)
from hvdprof.figures.timeline.range_table import range_facts
from hvdprof.figures.timeline.rank_times import STEP_KINDS, StepKind
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, Lanes, pass_lanes
from hvdprof.figures.timeline.timeline_rows import Row, RowChoice, missed_filters, timeline_rows
from hvdprof.figures.timeline.turn_axis import length_text, place_text
from hvdprof.figures.timeline.view_data import COLOURS, SHADES, Asked, Json, view_data
from hvdprof.model.cell_key import setting_of_row
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.collective_tables import COLLECTIVES

PATH = "/timeline-data/<what>"

_PAGES = {"ranks": ("/ranks", "Ranks"), "communication": ("/communication", "Communication")}
_BESIDE = 0.5
_BINS = 1_500
_WIDEST = 4_000


def register(app: Dash, runs: RunStore) -> None:
    """Answer the requests of the timeline."""

    def answer(what: str) -> tuple[Response, int]:
        view = View.of_address("/timeline", request.query_string.decode("utf-8", "replace"))
        make = ANSWERS.get(what)
        if make is None or view.run not in runs.ids:
            return jsonify({"problem": "There is no such run here."}), 404
        try:
            return jsonify(make(runs, view)), 200
        except HvdprofError as error:
            return jsonify({"problem": str(error), "hint": error.hint}), 409

    app.server.add_url_rule(PATH, "timeline-data", answer, methods=["GET"])


def passes_of(runs: RunStore, run_id: str) -> dict[str, str]:
    """The passes of a run with events on a time axis, by id, computed once per run."""
    return runs.made(run_id, "passes", lambda: timeline_passes(runs.run(run_id)))


def chosen_pass(passes: Mapping[str, str], segments: pd.DataFrame, view: View) -> str:
    """The pass in the address if it exists, else the first one with the nearest cell to it.

    Args:
        passes: The passes with events, the default first.
        segments: SEGMENTS of the run.
        view: The view in the address.

    Raises:
        UnreadableInputError: The run has none.
    """
    if not passes:
        raise UnreadableInputError(
            "The run has no pass with events on a time axis.",
            hint="hvdprof bench and run record one unless --no-trace is given.",
        )
    for asked_for in (view.pass_id, pass_of_launch(view)):
        if asked_for in passes:
            return str(asked_for)
    asked = (view.text("model"), view.np, view.text("toggles"))
    if not any(asked):
        return next(iter(passes))
    nearest = dict.fromkeys(passes, tuple(value is not None for value in asked))
    for row in segments.to_dict("records"):
        pass_id = str(row["pass_id"])
        has = (str(row["model"]), int(row["size"]), setting_of_row(row))
        distance = tuple(
            one is not None and one != of_row for one, of_row in zip(asked, has, strict=True)
        )
        if pass_id in nearest:
            nearest[pass_id] = min(nearest[pass_id], distance)
    return min(passes, key=lambda pass_id: nearest[pass_id])


def lanes_of_view(runs: RunStore, view: View) -> Lanes:
    """The lanes of the pass in the address."""
    run_id = str(view.run)
    segments = runs.run(run_id).segments
    pass_id = chosen_pass(passes_of(runs, run_id), segments, view)
    kind = lane_kind_of(view)
    return runs.made(
        run_id, ("lanes", pass_id, kind), lambda: pass_lanes(runs.run(run_id), pass_id, kind)
    )


def view_answer(runs: RunStore, view: View) -> Json:
    """The rows, and what is drawn of them from ``from`` to ``to`` and half as much beside it."""
    lanes = lanes_of_view(runs, view)
    opening = _opening(runs, view, lanes)
    choice = _choice(view, opening)
    rows, num_left_out = timeline_rows(lanes, choice)
    window = window_of(view, lanes, _opened(opening, lanes))
    low, high = lanes.axis.window(window.first_ns, window.last_ns)
    beside = round((high - low) * _BESIDE)
    sent = fitted(low - beside, high + beside, lanes.axis.length_ns)
    pixels = min(max(view.whole("px") or _BINS, 100), _WIDEST)
    wider = round(pixels * sent.length_ns / max(high - low, 1))
    first, last = lanes.axis.times([sent.first_ns, sent.last_ns]).tolist()
    asked = Asked(window.first_ns, window.last_ns, first, last, wider)
    data = view_data(lanes, rows, choice, asked, _executions(runs, view, lanes))
    return data | {
        "pass": lanes.pass_id,
        "length": lanes.length_ns,
        "window": [window.first_ns, window.last_ns],
        "rows": [_row(row) for row in rows],
        "left_out": num_left_out,
        "missed": missed_filters(rows, lanes, choice),
        "segments": segment_spans(lanes),
        "finding": opening.finding,
        "acting": opening.steps,
        "notes": lane_notes(lanes, rows, runs.run(str(view.run)).segments),
        "kinds": [[name, COLOURS[name]] for name in CATEGORIES],
        "used": [CATEGORIES[number] for number in lanes.spans.categories()],
        "shades": SHADES,
        **({"turns": turns} if (turns := lanes.axis.turns) else {}),
    }


def details_answer(runs: RunStore, view: View) -> Json:
    """The facts of the event or the bin in the address; empty without one."""
    lanes = lanes_of_view(runs, view)
    row = view.whole("event")
    facts = None if row is None else event_facts(lanes, row)
    if row is not None and facts is not None:
        of_rank = runs.run(str(view.run)).events["source"].iloc[row] == "recorder"
        path, page = _PAGES["ranks" if of_rank else "communication"]
        links = [{"text": page, "href": view.at(path).href}]
        return {"event": row, "links": links} | asdict(facts)
    lane, at = view.whole("lane"), view.whole("at")
    if lane is None or at is None or not 0 <= lane < len(lanes.names):
        return {}
    window = window_of(view, lanes, _opened(_opening(runs, view, lanes), lanes))
    low, high = lanes.axis.window(window.first_ns, window.last_ns)
    width = max((high - low) // _BINS, 1)
    return derived_facts(lanes, lane, at) or {
        "title": f"Around {place_text(at)}, {length_text(width)} wide",
        "facts": bin_facts(lanes, lane, at, width),
        "lane": lane,
        "start_ns": at - width // 2,
        "dur_ns": width,
    }


def range_answer(runs: RunStore, view: View) -> Json:
    """The table of the selected range; empty without one."""
    lanes = lanes_of_view(runs, view)
    chosen = selection_of(view)
    if chosen is None:
        return {}
    choice = _choice(view, _opening(runs, view, lanes))
    rows, _ = timeline_rows(lanes, choice)
    executions = _executions(runs, view, lanes)
    window = (chosen.first_ns, chosen.last_ns)
    return asdict(range_facts(lanes, rows, choice, executions, window))


def hits_answer(runs: RunStore, view: View) -> Json:
    """The hits of the search in the address, or the steps of the kind in it."""
    lanes = lanes_of_view(runs, view)
    kind = view.text("steps")
    if view.text("find"):
        return _hits(events_named(lanes, str(view.text("find"))))
    if kind in set(StepKind):
        return _hits(steps_of_kind(lanes, StepKind(str(kind)))) | {
            "kind": STEP_KINDS[StepKind(kind)]
        }
    return {}


ANSWERS: Mapping[str, Callable[[RunStore, View], Json]] = {
    "view": view_answer,
    "details": details_answer,
    "range": range_answer,
    "hits": hits_answer,
}
"""The requests by the last part of their path."""


def _hits(found: Hits) -> Json:
    return {
        "number": found.number,
        "hits": [asdict(hit) | {"place": place_text(hit.start_ns)} for hit in found.hits],
    }


def _opening(runs: RunStore, view: View, lanes: Lanes) -> Opening:
    run_id = str(view.run)
    key = ("opening", lanes.pass_id, lanes.kind)
    looked = runs.finished(run_id)
    analysis = looked if isinstance(looked, RunAnalysis) else None
    return runs.made(run_id, key, lambda: opening_of(analysis, lanes))


def _choice(view: View, opening: Opening) -> RowChoice:
    """The rows that are asked for; Horovod's lanes folded where they are empty as it opens."""
    return replace(row_choice_of(view), folded=opening.unwritten)


def _opened(opening: Opening, lanes: Lanes) -> Window:
    return fitted(opening.first_ns, opening.last_ns, lanes.length_ns)


def _executions(runs: RunStore, view: View, lanes: Lanes) -> Executions:
    run_id = str(view.run)
    # Outside of ``made``, which a table of a standalone file uses itself.
    pieces = large_executions(runs.run(run_id), lanes.pass_id)
    if pieces is None:
        pieces = iter([runs.table(run_id, COLLECTIVES.name)])
    return runs.made(
        run_id, ("executions", lanes.pass_id), lambda: executions_of(pieces, lanes.pass_id)
    )


def _row(row: Row) -> Json:
    return {
        "kind": row.kind.value,
        "name": row.name,
        "full": row.full,
        "lane": row.lane,
        "ranks": len(row.ranks),
        "opens": row.opens,
        "open": row.is_open,
        "pinned": row.is_pinned,
    }
