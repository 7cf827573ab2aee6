from dataclasses import replace

import pytest

from hvdprof.report.stop_text import stop_text
from hvdprof.rundir.stopping import Stop, StopReason

STOP = Stop(
    reason=StopReason.PRECISION,
    num_repeats=3,
    most_repeats=6,
    half_width=0.0243,
    precision=0.03,
    budget_s=300.0,
    elapsed_s=212.4,
)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Stopped after 3 of at most 6 repeats: ±2.4 % reached (3 % asked)."),
        (
            {"reason": "budget", "half_width": 0.042, "elapsed_s": 300.2, "missing_s": 250.0},
            "Stopped at 5 min, after 3 repeats: ±4.2 % reached, 3 % needs about 4 min more.",
        ),
        (
            {"reason": "budget", "half_width": 0.131, "num_repeats": 1, "missing_s": 250.0},
            "Stopped at 3 min 32 s, after 1 repeat: ±13 % reached (3 % asked).",
        ),
        (
            {"reason": "repeats", "num_repeats": 6, "half_width": 0.04, "missing_s": 44.0},
            "Stopped after 6 of at most 6 repeats: ±4.0 % reached, 3 % needs about 40 s more.",
        ),
        (
            {"reason": "budget", "half_width": 0.84, "missing_s": 6_556_140.0},
            "Stopped at 3 min 32 s, after 3 repeats: ±84 % reached, 3 % is out of reach here (more "
            "than a day).",
        ),
        (
            {"reason": "budget", "precision": None, "half_width": 0.04},
            "Stopped at 3 min 32 s, after 3 repeats: ±4.0 % reached.",
        ),
        (
            {"reason": "nothing", "half_width": None},
            "Stopped after 3 repeats, with no efficiency to narrow.",
        ),
    ],
)
def test_why_a_run_stopped(changes: dict[str, object], text: str) -> None:
    assert stop_text(replace(STOP, **changes)) == text


def test_a_run_with_exact_repeats_says_nothing() -> None:
    assert stop_text(None) == ""
