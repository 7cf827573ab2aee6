import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.collect.turn_gate import TurnGate
from hvdprof.errors import InterruptedRunError, StorageError
from hvdprof.launch.processes.interruption import interruptible
from hvdprof.launch.processes.launch_process import Watch
from hvdprof.launch.processes.marked_processes import marked_processes
from hvdprof.launch.run import turn_socket
from hvdprof.launch.run.resident_launch import ResidentLaunch
from hvdprof.launch.run.resident_launches import run_residents
from hvdprof.launch.run.turn_socket import WITHOUT_END, resident_warn_s
from hvdprof.rundir.launch_format import TurnLine
from hvdprof.rundir.plan import Segment
from tests.builders import turn_ranks
from tests.builders.launches import launch_into
from tests.builders.places import ROOT
from tests.builders.training_job import segment

SHORT = replace(segment("mnist"), num_steps=None, max_seconds=0.3)
SEGMENTS = (SHORT, replace(SHORT, id="resnet18", model="resnet18"))


def _resident(
    folder: Path,
    *options: str,
    segments: tuple[Segment, ...] = SEGMENTS,
    timeout_s: float = 30.0,
    stall_warn_s: float = 0.0,
    watch: Watch | None = None,
) -> ResidentLaunch:
    plain = Watch(progress=lambda: 0, timeout_s=timeout_s)
    launch = launch_into(folder, watch=watch or plain)
    names = [one.id for one in segments]
    command = [sys.executable, turn_ranks.__file__, str(folder), "2", *names, *options]
    return ResidentLaunch(
        replace(launch, command=command, environment={**os.environ, "PYTHONPATH": str(ROOT)}),
        segments,
        turn_s=0.1,
        warn_s=stall_warn_s,
    )


def _steps(folder: Path) -> list[tuple[str, int, int, int]]:
    """Segment, number, begin and end of the steps of rank 0."""
    lines = (line.split() for line in (folder / "steps-0.txt").read_text().splitlines())
    return [(name, int(step), int(begin), int(end)) for name, step, begin, end in lines]


def _turns(folder: Path) -> list[TurnLine]:
    return [json.loads(line) for line in (folder / "turns.jsonl").read_text().splitlines()]


def _run(*launches: ResidentLaunch) -> list[int]:
    outcomes = run_residents(launches)
    assert not [pid for launch in launches for pid in marked_processes(launch.mark)]
    return [outcome.exit_code for outcome in outcomes]


@pytest.mark.slow
def test_only_one_launch_runs_at_a_time(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    assert _run(*(_resident(folder) for folder in folders)) == [0, 0, 0]
    turns = {folder: _turns(folder) for folder in folders}
    spans = sorted(
        (turn["monotonic_ns"], turn["monotonic_ns"] + turn["dur_ns"], folder.name)
        for folder in folders
        for turn in turns[folder]
    )
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    # A B B A within the turns of a model.
    assert "".join(name for _, _, name in spans[:6]) == "abccba"
    for folder in folders:
        first = turns[folder][0]
        assert {turn["segment"] for turn in turns[folder]} == {"mnist", "resnet18"}
        assert (first["round"], first["first_step"]) == (0, 1)
        steps = {(name, step): (begin, end) for name, step, begin, end in _steps(folder)}
        for turn in turns[folder]:
            begin, _ = steps[turn["segment"], turn["first_step"]]
            _, end = steps[turn["segment"], turn["first_step"] + turn["num_steps"] - 1]
            assert turn["monotonic_ns"] <= begin < end <= turn["monotonic_ns"] + turn["dur_ns"]
            assert turn["other_cores"] is None or turn["other_cores"] >= 0


@pytest.mark.slow
def test_a_launcher_that_fails_before_its_ranks_is_started_again_and_takes_its_turns(
    tmp_path: Path,
) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    codes: list[int] = []
    watch = Watch(progress=lambda: 0, timeout_s=60.0, again=lambda code: not codes.append(code))
    first, second = (_resident(folder, watch=watch) for folder in folders)
    once = tmp_path / "once"
    command = shlex.join(second.launch.command)
    second.launch = replace(
        second.launch,
        command=["sh", "-c", f"test -e {once} && exec {command}; touch {once}; exit 7"],
    )
    assert _run(first, second) == [0, 0]
    assert codes[0] == 7
    assert len(_turns(folders[1])) > 1


@pytest.mark.slow
def test_a_stopped_launch_does_not_even_poll(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    _run(*(_resident(folder) for folder in folders))
    for own, other in (folders, folders[::-1]):
        polls = [int(line) for line in (own / "polls-0.txt").read_text().split()]
        turns = _turns(other)
        # Stopping takes moments, so the middle of a turn is what counts.
        inside = sum(
            turn["monotonic_ns"] + turn["dur_ns"] // 3
            < poll
            < turn["monotonic_ns"] + turn["dur_ns"]
            for turn in turns
            for poll in polls
        )
        assert len(polls) > 20
        assert inside == 0


@pytest.mark.slow
def test_what_a_rank_has_started_is_stopped_with_it(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    _run(*(_resident(folder, "--worker") for folder in folders))
    polls = [int(line) for line in (folders[0] / "polls-worker-0.txt").read_text().split()]
    turns = _turns(folders[1])
    inside = sum(
        turn["monotonic_ns"] + turn["dur_ns"] // 3 < poll < turn["monotonic_ns"] + turn["dur_ns"]
        for turn in turns
        for poll in polls
    )
    assert len(polls) > 20
    assert inside == 0


@pytest.mark.slow
def test_launches_that_do_not_fit_together_run_one_after_the_other(tmp_path: Path) -> None:
    counted = replace(SHORT, max_seconds=None, num_steps=50)
    folders = [tmp_path / "a", tmp_path / "b"]
    launches = [_resident(folder, segments=(counted,)) for folder in folders]
    asked: list[int] = []

    def fits(used_bytes: int) -> bool:
        asked.append(used_bytes)
        return False

    assert [outcome.exit_code for outcome in run_residents(launches, fits)] == [0, 0]
    assert len(asked) == 1 and 2e6 < asked[0] < 2e9
    assert not any((folder / "turns.jsonl").exists() for folder in folders)
    steps = [_steps(folder) for folder in folders]
    assert [len(own) for own in steps] == [50, 50]
    assert steps[0][-1][3] < steps[1][0][2]


@pytest.mark.slow
def test_ranks_that_stop_at_different_steps_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_socket, "APART_S", 0.5)
    endless = (replace(SHORT, max_seconds=None, num_steps=None),)
    apart = _resident(tmp_path / "a", "--apart", segments=endless)
    counted = replace(SHORT, max_seconds=None, num_steps=50)
    other = _resident(tmp_path / "b", segments=(counted,))

    assert _run(apart, other) == [0, 0]
    assert apart.stood_apart and not other.stood_apart
    assert sum(turn["num_steps"] for turn in _turns(tmp_path / "b")) == 50
    first, *_, last = _turns(tmp_path / "a")
    assert first["first_step"] == 1
    # All steps from the boundary on which the ranks disagreed count.
    assert last["num_steps"] == WITHOUT_END


@pytest.mark.slow
def test_ranks_that_stop_at_different_steps_run_on_before_that_is_reported_as_a_stall(
    tmp_path: Path,
) -> None:
    endless = (replace(SHORT, max_seconds=None, num_steps=None),)
    apart = _resident(tmp_path / "a", "--apart", segments=endless, stall_warn_s=2.0)
    begin_s = time.monotonic()
    assert _run(apart) == [0]
    assert apart.stood_apart
    assert time.monotonic() - begin_s < turn_socket.APART_S / 2


@pytest.mark.slow
def test_a_short_stall_warning_leaves_ranks_time_to_arrive(tmp_path: Path) -> None:
    """With `--stall-warn 1`, half a second between two ranks is no other boundary."""
    counted = (replace(SHORT, max_seconds=None, num_steps=6),)
    late = _resident(tmp_path / "a", "--late-s", "0.8", segments=counted, stall_warn_s=1.0)
    other = _resident(tmp_path / "b", segments=counted, stall_warn_s=1.0)

    assert _run(late, other) == [0, 0]
    assert not late.stood_apart
    assert len(_turns(tmp_path / "a")) == 2


@pytest.mark.parametrize(
    ("asked_s", "reported_s"), [(0.0, 0.0), (0.5, 4.0), (1.0, 4.0), (4.0, 4.0), (60.0, 60.0)]
)
def test_stalls_of_turns_are_reported_later_than_ranks_turn_out_apart(
    asked_s: float, reported_s: float
) -> None:
    assert resident_warn_s(asked_s) == reported_s


@pytest.mark.slow
def test_segments_of_one_model_follow_each_other(tmp_path: Path) -> None:
    fp16 = (SHORT, replace(SHORT, id="mnist-fp16"), SEGMENTS[1])
    _run(_resident(tmp_path / "a"), _resident(tmp_path / "b", segments=fp16))
    order = list(dict.fromkeys(turn["segment"] for turn in _turns(tmp_path / "b")))
    assert order == ["mnist", "mnist-fp16", "resnet18"]
    last_fp16 = max(t["monotonic_ns"] for t in _turns(tmp_path / "b") if "fp16" in t["segment"])
    first_of_a = min(
        t["monotonic_ns"] for t in _turns(tmp_path / "a") if t["segment"] == "resnet18"
    )
    assert last_fp16 < first_of_a


@pytest.mark.slow
def test_a_launch_that_fails_leaves_the_others_their_turns(tmp_path: Path) -> None:
    failing = _resident(tmp_path / "a", "--die", "resnet18")
    assert _run(failing, _resident(tmp_path / "b")) == [7, 0]
    assert {turn["segment"] for turn in _turns(tmp_path / "a")} == {"mnist"}
    assert {turn["segment"] for turn in _turns(tmp_path / "b")} == {"mnist", "resnet18"}


@pytest.mark.slow
def test_a_launch_that_hangs_in_its_turn_is_ended_and_no_other(tmp_path: Path) -> None:
    hanging = _resident(tmp_path / "a", "--hang", "resnet18", timeout_s=5.0)
    other = _resident(tmp_path / "b", timeout_s=5.0)
    outcomes = run_residents([hanging, other])
    assert [outcome.hung for outcome in outcomes] == [True, False]
    assert {turn["segment"] for turn in _turns(tmp_path / "b")} == {"mnist", "resnet18"}


@pytest.mark.slow
def test_a_long_wait_for_the_turn_is_no_hang(tmp_path: Path) -> None:
    longer = replace(SHORT, max_seconds=8.0)
    waiting = _resident(tmp_path / "a", segments=(SHORT,), timeout_s=5.0)
    assert _run(waiting, _resident(tmp_path / "b", segments=(longer,), timeout_s=5.0)) == [0, 0]


@pytest.mark.slow
def test_an_interruption_leaves_no_process_behind_stopped_or_not(tmp_path: Path) -> None:
    longer = (replace(SHORT, max_seconds=60.0),)
    launches = [_resident(tmp_path / name, segments=longer) for name in "ab"]
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        while not (tmp_path / "b" / "turns.jsonl").exists():
            time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(InterruptedRunError), interruptible():
        run_residents(launches)
    thread.join()
    assert not [pid for launch in launches for pid in marked_processes(launch.mark)]
    assert _turns(tmp_path / "a")


@pytest.mark.slow
def test_a_launching_side_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    script = tmp_path / "launching.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from dataclasses import replace\n"
        "from tests.launch.run.test_resident_launches import SHORT, _resident\n"
        "from hvdprof.launch.run.resident_launches import run_residents\n"
        "longer = (replace(SHORT, max_seconds=60.0),)\n"
        "launches = [_resident(Path(sys.argv[1]) / n, segments=longer) for n in 'ab']\n"
        "print(*(one.mark for one in launches), flush=True)\n"
        "run_residents(launches)\n"
    )
    launching = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert launching.stdout is not None
    marks = launching.stdout.readline().split()
    while not (tmp_path / "b" / "turns.jsonl").exists():
        time.sleep(0.05)
    assert all(marked_processes(mark) for mark in marks)
    launching.kill()
    launching.wait()
    launching.stdout.close()
    deadline = time.monotonic() + 20
    while any(marked_processes(mark) for mark in marks) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for mark in marks for pid in marked_processes(mark)]


def test_processes_end_even_where_they_cannot_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = _resident(tmp_path)

    def fail() -> None:
        raise RuntimeError("not resumed")

    launch.start()
    while not launch.arrives():
        pass
    monkeypatch.setattr(launch._socket, "resume_ranks", fail)
    assert marked_processes(launch.mark)
    with pytest.raises(RuntimeError, match="not resumed"):
        launch.end()
    assert not marked_processes(launch.mark)
    assert not launch.models


def test_every_launch_stops_listening_where_an_earlier_one_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = [_resident(tmp_path / name) for name in "abc"]

    def fail() -> None:
        raise StorageError("no space")

    monkeypatch.setattr(launches[1], "start", fail)
    with pytest.raises(StorageError):
        run_residents(launches)
    for launch in launches:
        with pytest.raises(ConnectionRefusedError):
            TurnGate(launch._socket.address, 0)
        assert not marked_processes(launch.mark)
