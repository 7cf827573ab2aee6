"""Windows of several ranks become the mean steps that all of them share."""

import itertools

import numpy as np
import pytest

from hvdprof.ingest.recorder import light_steps
from hvdprof.ingest.recorder.light_steps import shared_windows, steps_from_windows
from hvdprof.ingest.recorder.recorder_file import RecorderFile, SegmentRecording
from hvdprof.ingest.recorder.step_phases import UNSEEN, RecordedWindows
from hvdprof.rundir.recording.line_format import WindowLine

STEP_NS = 100


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of this module are short."""
    monkeypatch.setattr(light_steps, "LEAST_ROWS", 2)


def window(first: int, end: int, **values: object) -> WindowLine:
    """Steps of 100 ns: 40 forward, 30 blocked, 30 after it; 10 between two steps."""
    num = end - first
    line: WindowLine = {
        "kind": "window",
        "segment": "main",
        "step": first,
        "last_step": end - 1,
        "num_steps": num,
        "warmup": False,
        "start_ns": first * (STEP_NS + 10),
        "end_ns": (end - 1) * (STEP_NS + 10) + STEP_NS,
        "wall_ns": 0,
        "samples": 8 * num,
        "lengths": (STEP_NS * num, STEP_NS, STEP_NS, STEP_NS),
        "parts": {"forward": (40 * num, 40, 40, 40), "blocked": (30 * num, 30, 30, 30)},
        "waits": [("grad_reduce", num, 40 * num, 30 * num, 0)],
        "after_ns": 30 * num,
        "longest": (first, STEP_NS, 30, "forward", 40),
    }
    line.update(values)
    return line


def of_ends(*ends: int, first: int = 0) -> RecordedWindows:
    windows = RecordedWindows()
    for begin, end in itertools.pairwise((first, *ends)):
        windows.add(window(begin, end))
    return windows


def shared(*ranks: RecordedWindows) -> list[tuple[int, int]]:
    starts, ends = shared_windows([one.table() for one in ranks])
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def test_windows_nest_and_are_added_up_to_the_ends_that_all_ranks_share() -> None:
    first = of_ends(8, 16, 24, 32, 40, 48)
    second = of_ends(4, 8, 12, 16, 32, 48)
    assert shared(first, second) == [(0, 16), (16, 32), (32, 48)]


def test_short_windows_at_the_begin_become_windows_of_the_usual_length() -> None:
    windows = of_ends(1, 2, 4, 8, 16, 32, 48, 64, 80)
    assert shared(windows, windows) == [(0, 16), (16, 32), (32, 48), (48, 64), (64, 80)]


def test_a_short_rest_at_the_end_belongs_to_the_window_before() -> None:
    assert shared(of_ends(16, 32, 48, 51)) == [(0, 16), (16, 32), (32, 51)]
    assert shared(of_ends(16, 32, 48, 60)) == [(0, 16), (16, 32), (32, 60)]


def test_one_very_long_window_does_not_make_all_others_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(light_steps, "LEAST_ROWS", 4)
    assert shared(of_ends(2, 4, 6, 8, 24)) == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 24)]


def test_a_rank_that_was_killed_does_not_shorten_the_others() -> None:
    assert shared(of_ends(8, 16, 24, 32), of_ends(8, 16)) == [(0, 8), (8, 16), (16, 24), (24, 32)]


def test_warmup_and_an_evaluation_of_all_ranks_stay_apart() -> None:
    ranks = []
    for _ in range(2):
        windows = RecordedWindows()
        windows.add(window(0, 2, warmup=True))
        for begin, end in ((2, 10), (10, 14)):
            windows.add(window(begin, end))
        windows.add(window(14, 15, evaluation_ns=50))
        windows.add(window(15, 23))
        ranks.append(windows)
    assert shared(*ranks) == [(0, 2), (2, 10), (10, 14), (14, 15), (15, 23)]


def test_an_evaluation_of_one_rank_is_part_of_the_window_of_the_others() -> None:
    evaluating = RecordedWindows()
    evaluating.add(window(0, 4))
    evaluating.add(window(4, 5, evaluation_ns=50))
    evaluating.add(window(5, 8))
    assert shared(evaluating, of_ends(8)) == [(0, 8)]


def recorded(windows: RecordedWindows) -> SegmentRecording:
    recording = SegmentRecording(id="main", windows=windows)
    steps_from_windows([RecorderFile(segments={"main": recording})])
    return recording


def test_a_step_is_the_mean_of_its_window_and_lasts_with_what_is_between_steps() -> None:
    recording = recorded(of_ends(10, 20))
    table = recording.step_table()
    assert recording.steps_of_rows().tolist() == [10, 10]
    # step, warmup, start, length, samples, data, forward, backward, blocked, before
    # the update, optimizer, other
    assert table[1].tolist() == [10, 0, 1100, 109, 8, 0, 40, 0, 30, 0, 0, 39]
    assert recording.num_steps == 2
    assert np.isnan(recording.losses).all()
    assert recording.recorded_ns == 2 * 1090


def test_waits_lie_at_the_end_of_their_window() -> None:
    recording = recorded(of_ends(10, 20))
    row, offset, length, submitted, num_ranks = recording.wait_table()[0].tolist()
    assert (row, length, submitted, num_ranks) == (0, 30, UNSEEN, 0)
    assert offset + length + 30 == 1090


def test_unknown_waits_stay_unknown_and_losses_are_means() -> None:
    windows = RecordedWindows()
    windows.add(window(0, 2, loss=1.0))
    windows.add(window(2, 8, loss=2.0, waits=None))
    windows.add(window(8, 16))
    recording = recorded(windows)
    assert recording.step_table()[:, 8].tolist() == [UNSEEN, 30]
    assert recording.losses[0] == pytest.approx((2 * 1.0 + 6 * 2.0) / 8)


@pytest.mark.parametrize(
    "values",
    [
        {"num_steps": 0},
        {"num_steps": 9},
        {"samples": 0},
        {"end_ns": 0},
        {"lengths": (1, 2, 3)},
        {"parts": {"forward": (1,)}},
        {"waits": [("grad_reduce", 1)]},
        {"start_ns": "now"},
        {"after_ns": 2**70},
        {"longest": (1, 2)},
    ],
)
def test_damaged_windows_are_refused_whole(values: dict[str, object]) -> None:
    windows = RecordedWindows()
    with pytest.raises((ValueError, TypeError)):
        windows.add(window(0, 8, **values))
    assert len(windows) == len(windows.numbers) == len(windows.waits) == 0


def test_windows_are_numbered_upwards() -> None:
    windows = of_ends(8)
    with pytest.raises(ValueError, match="upwards"):
        windows.add(window(7, 9))
