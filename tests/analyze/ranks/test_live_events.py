"""What the recorded steps say of a straggler that a watcher named."""

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.ranks.stragglers import live_events
from hvdprof.model.tables.finding_tables import LIVE_EVENTS, WATCHED_EVENTS
from hvdprof.model.tables.run_tables import STEPS
from tests.builders.declared_rows import declared_rows


def _events(**changes):
    values = {"pass_id": "np2", "event": "straggler", "segment": "main", "rank": 1}
    return declared_rows(WATCHED_EVENTS, {**values, "first_step": 100, "last_step": 299, **changes})


def _steps(late, noise=0.01, number=400):
    rng = np.random.default_rng(1)
    rows = []
    for rank in range(3):
        own = 1e6 * (1 + rng.normal(0, noise, number) + (late if rank == 1 else 0.0))
        for step in range(number):
            if not 100 <= step < 300 and rank == 1:
                own[step] = 1e6
            row = {"pass_id": "np2", "segment": "main", "rank": rank, "step": step}
            blocked = 2_000_000 - int(own[step])
            rows.append({**row, "dur_ns": 2_000_000, "blocked_ns": blocked, "warmup": False})
    return declared_rows(STEPS, *rows)


@pytest.mark.parametrize(
    ("late", "noise", "outcome"),
    [(0.3, 0.01, "confirmed"), (0.0, 0.01, "refuted"), (0.0, 2.0, "undecided")],
)
def test_the_interval_of_the_lateness_decides(late, noise, outcome):
    (row,) = live_events(_events(), _steps(late, noise)).to_dict("records")
    assert row["outcome"] == outcome
    assert row["late_low_ns"] < row["late_ns"] < row["late_high_ns"]
    if outcome == "confirmed":
        assert row["late_ns"] == pytest.approx(300_000, rel=0.05)


def test_without_steps_of_the_event_there_is_no_outcome():
    steps = _steps(0.3)
    for event in (_events(rank=7), _events(event="hang"), _events(first_step=295)):
        (row,) = live_events(event, steps).to_dict("records")
        assert (row["outcome"], pd.isna(row["late_ns"])) == ("", True)
    assert live_events(WATCHED_EVENTS.empty(), steps).equals(LIVE_EVENTS.empty())
