"""The axis that shortens hvdprof's turns: its pair of functions, and what is drawn on it."""

import base64
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.api import analyze_run
from hvdprof.figures.timeline.counters import executions_of
from hvdprof.figures.timeline.event_details import event_facts
from hvdprof.figures.timeline.event_search import opening_of
from hvdprof.figures.timeline.range_table import range_facts
from hvdprof.figures.timeline.still import still_timeline
from hvdprof.figures.timeline.timeline_lanes import pass_lanes
from hvdprof.figures.timeline.timeline_rows import RowChoice, timeline_rows
from hvdprof.figures.timeline.turn_axis import TurnAxis, length_text, place_text
from hvdprof.figures.timeline.view_data import Asked, view_data
from hvdprof.model.tables.run_tables import EVENTS, STEPS, TURNS
from tests.builders.declared_rows import declared_rows
from tests.builders.traced_run import (
    MS,
    PASS_ID,
    SEGMENT_ID,
    START_NS,
    part_rows,
    step_row,
    traced_run,
)

SECOND = 1_000 * MS
TURN = {"pass_id": PASS_ID, "segment": SEGMENT_ID, "num_steps": 2}


@st.composite
def axes(draw):
    """An axis of up to eight turns, wider than they are drawn."""
    times, places = [0], [0]
    for _ in range(draw(st.integers(0, 8))):
        own = draw(st.integers(1, 10**10))
        width = draw(st.integers(1, 10**8))
        turn = width + draw(st.integers(1, 10**13))
        times += [times[-1] + own, times[-1] + own + turn]
        places += [places[-1] + own, places[-1] + own + width]
    own = draw(st.integers(1_000, 10**10))
    return TurnAxis(np.array([*times, times[-1] + own]), np.array([*places, places[-1] + own]))


@given(axes(), st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_times_and_places_are_a_pair(axis, shares):
    end = int(axis.time_ns[-1])
    times = np.unique([*axis.time_ns, *(int(share * end) for share in shares)])
    places = axis.places(times)
    # Exact at the edges of turns, and as good as the digits of a place between them.
    assert np.array_equal(axis.places(axis.time_ns), axis.place_ns)
    assert np.array_equal(axis.times(axis.place_ns), axis.time_ns)
    assert (np.diff(places) >= 0).all()
    inside = axis.time_ns[1:-1]
    is_own = [not any(a < time < b for a, b in inside.reshape(-1, 2)) for time in times]
    assert np.array_equal(axis.times(places)[is_own], times[is_own])
    steepest = max(np.diff(axis.time_ns) / np.diff(axis.place_ns))
    assert np.abs(axis.times(places) - times).max() <= 1 + 1e-4 * steepest
    # Many at once are each alone.
    assert places.tolist() == [float(axis.places([time])[0]) for time in times.tolist()]
    assert axis.places([-5, end + 7]).tolist() == [-5, axis.length_ns + 7]


@given(axes(), st.floats(0, 0.9), st.floats(0.01, 1), st.integers(1, 500))
def test_edges_are_equally_far_on_the_axis(axis, start, length, most):
    end = int(axis.time_ns[-1])
    first = int(start * end)
    last = min(first + max(int(length * end), 1_000), end)
    edges = axis.edges(first, last, most)
    assert (edges[0], edges[-1]) == (first, last)
    assert 1 <= len(edges) - 1 <= most
    assert (np.diff(edges) > 0).all()
    widths = np.diff(axis.places(edges))
    assert widths.max() - widths.min() <= 2.01


def turned_run(num_turns=1, **frames):
    """Two ranks, 20 steps of 20 ms; after every 4th, another launch runs for a second."""
    firsts = [2 + 4 * number for number in range(num_turns)]

    def shift(step):
        return SECOND * sum(step >= first for first in firsts)

    steps = [step_row(rank, step) for rank in (0, 1) for step in range(20)]
    parts = [row for rank in (0, 1) for step in range(20) for row in part_rows(rank, step)]
    for row in steps + parts:
        row["start_ns"] += shift(row["step"])
    turns = [TURN | {"first_step": first + 1} for first in firsts]
    tables = {"steps": STEPS.frame(steps), "events": EVENTS.frame(parts)}
    made = traced_run(**(tables | frames))
    return made.extended({TURNS.name: declared_rows(TURNS, *turns)}, [])


def test_a_turn_is_what_lies_between_the_steps_of_two_turns():
    lanes = pass_lanes(turned_run(), PASS_ID)
    # As wide as two steps; steps end where their parts do.
    ((begin, end, width),) = lanes.axis.turns
    assert (begin, end, width) == (40 * MS, SECOND + 40 * MS, 40 * MS)
    assert lanes.length_ns - lanes.axis.length_ns == SECOND - 40 * MS
    of_all = pass_lanes(turned_run(5), PASS_ID).axis
    assert len(of_all.turns) == 5
    # Together at most a quarter of the time of the job.
    assert sum(width for *_, width in of_all.turns) <= 0.25 * 400 * MS


@pytest.mark.parametrize("first_step", [0, 1, 99])
def test_what_is_not_between_two_turns_is_not_shortened(first_step):
    run = turned_run()
    turns = declared_rows(TURNS, TURN | {"first_step": first_step})
    axis = pass_lanes(run.extended({TURNS.name: turns}, []), PASS_ID).axis
    assert axis.turns == []
    assert axis.length_ns == axis.time_ns[-1]


def test_work_between_two_turns_is_no_turn():
    run = turned_run()
    saved = part_rows(0, 1)[:1]
    saved[0] |= {"start_ns": START_NS + 240 * MS, "dur_ns": 300 * MS, "step": -1}
    events = EVENTS.frame([*run.events.to_dict("records"), *saved])
    ((begin, end, _),) = pass_lanes(turned_run(events=events), PASS_ID).axis.turns
    # 200 ms before it are less than the 500 ms behind it.
    assert (begin, end) == (540 * MS, SECOND + 40 * MS)


def drawn(lanes, window, pixels=1_000):
    choice = RowChoice()
    executions = executions_of([], PASS_ID)
    asked = Asked(window[0], window[1], window[0], window[1], pixels)
    return view_data(lanes, timeline_rows(lanes, choice)[0], choice, asked, executions)


def test_bins_shares_and_counters_are_those_of_the_axis():
    many = [
        row | {"start_ns": row["start_ns"] + 100_000 * number, "dur_ns": 50_000}
        for row in turned_run().events.to_dict("records")
        for number in range(20)
    ]
    lanes = pass_lanes(turned_run(events=EVENTS.frame(many)), PASS_ID)
    data = drawn(lanes, (0, lanes.length_ns))
    codes = np.frombuffer(base64.b64decode(data["bins"]["codes"]), np.uint8)
    codes = codes.reshape(-1, data["bins"]["width"])[0]
    ((begin, end, _),) = lanes.axis.turns
    low, high = lanes.axis.places([begin, end]) / lanes.axis.length_ns * len(codes)
    idle = np.flatnonzero(codes[round(low) : round(high)])
    assert len(idle) <= 2
    # Without the axis, two thirds of the bins would lie in the turn.
    assert np.count_nonzero(codes) > 0.5 * len(codes)
    assert data["caption"].endswith("1,400 ms in view, 1,000 ms of it hvdprof's turns.")
    shares = drawn(pass_lanes(turned_run(), PASS_ID), (0, lanes.length_ns))["shares"]
    assert shares["backward"] == pytest.approx(8 / 20, abs=0.02)


def test_a_range_across_a_turn_says_so_and_its_shares_are_of_the_rest():
    lanes = pass_lanes(turned_run(), PASS_ID)
    rows = timeline_rows(lanes, RowChoice())[0]
    window = (20 * MS, SECOND + 60 * MS)
    found = range_facts(lanes, rows, RowChoice(), executions_of([], PASS_ID), window)
    assert dict(found.facts)["range"] == "1,040 ms, 1,000 ms of it hvdprof's turns"
    backward = next(row for row in found.rows if row.name == "backward")
    assert backward.share == pytest.approx(16 / 40)
    plain = range_facts(lanes, rows, RowChoice(), executions_of([], PASS_ID), (0, 40 * MS))
    assert dict(plain.facts)["range"] == "40.0 ms"


def test_an_event_across_a_turn_says_what_it_holds():
    run = turned_run()
    across = part_rows(0, 1)[:1]
    across[0] |= {"start_ns": START_NS + 30 * MS, "dur_ns": 2 * SECOND}
    events = EVENTS.frame([*run.events.to_dict("records"), *across])
    lanes = pass_lanes(turned_run(events=events), PASS_ID)
    facts = event_facts(lanes, len(events) - 1)
    assert dict(facts.facts)["duration"] == "2,000 ms, 1,000 ms of it hvdprof's turns"
    assert facts.dur_ns == 2 * SECOND


def test_the_opening_is_three_steps_wide_beside_a_turn():
    run = turned_run()
    lanes = pass_lanes(run, PASS_ID)
    first, last = lanes.axis.around(SECOND + 40 * MS, SECOND + 60 * MS, 1.0)
    low, high = lanes.axis.window(first, last)
    assert high - low == 60 * MS
    assert lanes.axis.turn_ns(first, last) == SECOND // 2
    # The middle step of five turns is the first one of its turn.
    lanes = pass_lanes(turned_run(5), PASS_ID)
    opening = opening_of(None, lanes)
    low, high = lanes.axis.window(opening.first_ns, opening.last_ns)
    assert high - low == 60 * MS
    assert 0 < lanes.axis.turn_ns(opening.first_ns, opening.last_ns) <= SECOND


def test_the_still_timeline_names_the_turn_and_gives_it_its_small_width():
    still = still_timeline(analyze_run(turned_run(5)))
    root = ET.fromstring(still.svg)
    (turn,) = [one for one in root.iter("rect") if one[0].text == "hvdprof's turn, 1,000 ms"]
    steps = [one for one in root.iter("rect") if one[0].text == "backward, 8.00 ms"]
    assert float(turn.attrib["width"]) == pytest.approx(
        20 / 8 * float(steps[0].attrib["width"]), rel=0.05
    )
    ticks = [one.text for one in root.iter("text") if one.text.startswith("+")]
    assert len(ticks) > 3
    assert "+990 ms" not in ticks


def test_without_turns_all_is_as_on_a_plain_axis():
    lanes = pass_lanes(traced_run(), PASS_ID)
    axis = lanes.axis
    assert axis.turns == []
    times = np.arange(0, lanes.length_ns, 997)
    assert np.array_equal(axis.places(times), times)
    assert axis.window(3, 12_345) == (3, 12_345)
    assert axis.around(10, 20, 1.0) == (0, 30)
    for most in (1, 7, 1_500):
        first, last = 17, 9_999_999
        plain = first + np.arange(most + 1) * (last - first) // most
        assert np.array_equal(axis.edges(first, last, most), plain)
    many = EVENTS.frame(
        [
            row | {"start_ns": row["start_ns"] + 30 * MS * count}
            for count in range(800)
            for row in part_rows(0, 1)
        ]
    )
    long = pass_lanes(traced_run(events=many), PASS_ID)
    window = (1_000_003, 17 * SECOND)
    data = drawn(long, window)
    bins = long.spans.bins(
        long.origin_ns + window[0], long.origin_ns + window[1], np.array([0]), most=1_000
    )
    codes = np.frombuffer(base64.b64decode(data["bins"]["codes"]), np.uint8)
    assert len(codes) == 1_000
    assert np.array_equal(codes > 0, bins.busy.sum(axis=(0, 1)) > 0)
    assert data["caption"].endswith("17.0 s in view.")


@pytest.mark.parametrize(
    ("time_ns", "length", "place"),
    [
        (26_700, "26.7 µs", "0.027 ms"),
        (36_912_345, "36.9 ms", "36.912 ms"),
        (10_092_502_000_000, "10,092.5 s", "10,092.502000 s"),
    ],
)
def test_times_scale_their_unit(time_ns, length, place):
    assert length_text(time_ns) == length
    assert place_text(time_ns) == place
