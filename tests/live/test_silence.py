"""Ranks that record nothing, all or some, and what became of it."""

from hvdprof.live.silence import Silence, Stalls
from hvdprof.rundir.recording.stall_format import EventKind, EventState


def _run(silence, seconds, heard, steps=None):
    """Events of some seconds; ``heard``: rank to the seconds in which it records."""
    found = []
    for now in seconds:
        for rank, times in heard.items():
            silence.note(rank, float(now), is_new=now in times)
        found += silence.look(float(now), 1000.0 + now, steps or {0: 9, 1: 9})
    return [(change.kind, change.state, change.ranks, change.text) for change in found]


def test_a_rank_is_silent_and_back():
    back = range(80, 200)
    found = _run(Silence(), range(100), {0: range(200), 1: [*range(20), *back]})
    assert [(kind, state, ranks) for kind, state, ranks, _ in found] == [
        (EventKind.RANK_SILENT, EventState.BEGUN, (1,)),
        (EventKind.RANK_SILENT, EventState.OVER, (1,)),
    ]


def test_all_are_silent_and_end_steps_again():
    heard = [*range(20), *range(80, 100)]
    found = _run(Silence(), range(100), {0: heard, 1: heard})
    assert [(kind, state) for kind, state, *_ in found] == [
        (EventKind.NO_PROGRESS, EventState.BEGUN),
        (EventKind.NO_PROGRESS, EventState.OVER),
    ]
    assert "again" in found[1][3]


def test_windows_that_end_apart_make_a_hang_of_all_and_no_silent_rank():
    found = _run(Silence(), range(80), {0: range(20), 1: range(29)})
    assert [kind for kind, *_ in found] == [EventKind.NO_PROGRESS]


def test_nothing_is_a_hang_before_the_first_step():
    assert _run(Silence(), range(200), {0: (), 1: ()}, steps={0: -1, 1: -1}) == []


def test_what_ends_without_a_step_is_over_but_not_back():
    silence = Silence()
    _run(silence, range(60), {0: range(20), 1: range(20)})
    silence.forget(0)
    silence.forget(1)
    ((kind, state, _, text),) = _run(silence, (60,), {})
    assert (kind, state) == (EventKind.NO_PROGRESS, EventState.OVER)
    assert "have ended" in text
    silence = Silence()
    _run(silence, range(60), {0: range(90), 1: range(20)})
    silence.forget(1)
    ((kind, state, _, text),) = _run(silence, (60,), {0: range(90)})
    assert (kind, state) == (EventKind.RANK_SILENT, EventState.OVER)
    assert "has ended its recording" in text


def test_windows_of_ten_seconds_are_no_silence():
    times = range(0, 400, 10)
    found = _run(Silence(), range(100), {0: times, 1: [*range(0, 60, 10), 100]})
    assert found == []


def test_a_stall_is_reported_once_with_its_end(tmp_path):
    path = tmp_path / "stalls.jsonl"
    stalls = Stalls(path)
    assert list(stalls.look()) == []
    path.write_text(
        '{"kind":"stall","number":0,"segment":"main","step":7,"time_ns":9000000000,'
        '"waited_s":4.0,"waiting":[0],"late":[{"rank":1,"phase":"da\\u001bta"}]}\nbad\n'
        '{"kind":"over","number":0,"lasted_s":8.0}\n'
    )
    begun, over = stalls.look()
    assert (begun.state, begun.ranks, begun.since_s, begun.step) == ("begun", (1,), 5.0, 7)
    assert "\x1b" not in begun.phase
    assert (over.state, over.ranks) == ("over", (1,))
    assert list(stalls.look()) == []
