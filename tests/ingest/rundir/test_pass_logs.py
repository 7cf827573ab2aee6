"""Events of a watcher as rows."""

import json

from hvdprof.ingest.rundir.pass_logs import read_events


def _line(number, state, **changes):
    texts = dict.fromkeys(("segment", "host", "phase", "place", "text"), "a\x1b")
    numbers = {"time_ns": 50, "since_ns": 20, "step": 7, "cost_ns": 3, "step_ns": 9}
    line = {"kind": "event", "number": number, "event": "straggler", "state": state, "ranks": [1]}
    return json.dumps({**line, **texts, **numbers, **changes})


def test_begin_and_end_are_a_row_and_damage_a_note(tmp_path):
    path = tmp_path / "events.jsonl"
    over = _line(0, "over", since_ns=90, step=12)
    bad = '{"kind": "ev', _line(9, "over"), _line(2, "begun", event="other")
    path.write_text("\n".join([_line(0, "begun"), over, _line(1, "begun", ranks=[]), *bad]))
    frame, notes = read_events(path, "np2", {})
    assert frame["number"].tolist() == [0, 1]
    assert frame["rank"].tolist() == [1, -1]
    assert frame["last_step"].tolist() == [12, -1]
    assert frame["over_ns"].tolist() == [90, -1]
    assert frame["text"].tolist() == ["a\\x1b"] * 2
    assert [note.text for note in notes] == [
        "events.jsonl: line 4 is damaged: JSONDecodeError",
        "events.jsonl: line 5 is damaged: KeyError",
        "events.jsonl: line 6 is damaged: ValueError",
    ]


def test_a_hang_whose_end_no_watcher_saw_has_that_of_its_stall(tmp_path):
    path = tmp_path / "events.jsonl"
    hang = {"event": "hang", "segment": "main"}
    seen = _line(2, "over", since_ns=90, step=7, event="hang")
    lines = [_line(0, "begun", **hang), _line(1, "begun", **hang, ranks=[3])]
    path.write_text("\n".join([*lines, _line(2, "begun", **hang), seen]))
    frame, _ = read_events(path, "np2", {("main", 7, 1): 800, ("main", 8, 3): 900})
    assert frame["over_ns"].tolist() == [800, -1, 90]
    assert frame["last_step"].tolist() == [7, -1, 7]


def test_what_ranks_answered_is_in_the_row_of_the_event(tmp_path):
    path = tmp_path / "events.jsonl"
    files = ["event-0-rank-1.jsonl", "event-0-rank-1.stack"]
    sampled = _line(0, "sampled", share=0.61, place="crop.py:41 (crop)", files=files)
    profiled = _line(0, "profiled", share=0.0, files=["a.gz", files[0]], place="")
    unseen = _line(1, "sampled", share=0.0, place="", files=files)
    lines = [_line(0, "begun"), _line(1, "begun"), sampled, profiled, unseen]
    path.write_text("\n".join([*lines, _line(7, "sampled", share=0.5, files=[])]))
    frame, notes = read_events(path, "np2", {})
    assert frame["place"].tolist() == ["crop.py:41 (crop)", "a\\x1b"]
    assert frame["share"].tolist()[0] == 0.61
    assert frame["share"].isna().tolist() == [False, True]
    assert frame["files"].tolist() == [", ".join([*files, "a.gz"]), ", ".join(files)]
    assert [note.text for note in notes] == ["events.jsonl: line 6 is damaged: KeyError"]


def test_what_explains_an_event_stands_behind_its_text(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join([_line(0, "begun"), _line(0, "explained", text="It had no core.")]))
    (text,) = read_events(path, "np2", {})[0]["text"]
    assert text.endswith(" It had no core.")
    assert text != "It had no core."


def test_what_comes_once_has_its_end(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text(_line(0, "once", event="evaluation", ranks=[]))
    frame, _ = read_events(path, "np2", {})
    row = frame.iloc[0]
    assert (row["since_ns"], row["over_ns"], row["last_step"]) == (20, 50, 7)
