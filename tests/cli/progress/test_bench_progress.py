import io
from pathlib import Path

import pytest

from hvdprof import api
from hvdprof.cli.progress.bench_progress import TimeLeft, progress_for
from hvdprof.launch.diagnose.rank_progress import PassProgress, RankState
from hvdprof.launch.plan.design import plan_design
from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord, Status
from tests.builders.bench_settings import LOCAL_FOUR_CORES, bench_settings


def _passes() -> list[PassRecord]:
    return plan_design(bench_settings(), LOCAL_FOUR_CORES).passes


def _ended(record: PassRecord, seconds: float) -> PassRecord:
    record.duration_s = seconds
    record.status = Status.DONE
    return record


def test_time_left_follows_the_weight_of_the_passes() -> None:
    passes, left = _passes(), TimeLeft()
    left.start(passes)
    assert left.text() == ""
    left.end(_ended(passes[0], 10.0))
    assert left.text() == "about 30 s left"
    for record in passes[1:]:
        left.end(_ended(record, 10.0))
    assert left.text() == ""


def test_a_log_gets_one_line_per_pass_and_the_failures() -> None:
    stream = io.StringIO()
    progress = progress_for(stream, silent=False)
    passes = _passes()[1:3]
    progress.sweep_started(passes)
    progress.pass_started(passes[0])
    progress.pass_ended(_ended(passes[0], 6.54))
    progress.pass_started(passes[1])
    broken = passes[1].segments[0]
    broken.status, broken.failure = Status.FAILED, Failure(reason="rank 1 was ended by SIGKILL")
    passes[1].status, passes[1].duration_s = Status.FAILED, 3.0
    progress.pass_ended(passes[1])
    assert stream.getvalue() == (
        "[1/2] 1 rank, throughput, repeat 1: done in 6.54 s, about 7 s left\n"
        "[2/2] 2 ranks, throughput, repeat 1: failed in 3.00 s\n"
        "    mnist failed: rank 1 was ended by SIGKILL\n"
    )


def test_what_launches_die_of_is_said_once() -> None:
    stream = io.StringIO()
    progress = progress_for(stream, silent=False)
    passes = _passes()[:3]
    progress.sweep_started(passes)
    for rank, record in enumerate(passes):
        error = "E: other" if rank == 2 else "E: the same"
        reason = f"rank {rank} raised {error}"
        record.segments[0].failure = Failure(reason=reason, rank=rank, lines=["Aborted"])
        record.status, record.duration_s = Status.FAILED, 3.0
        progress.pass_ended(record)
    said = [line.partition(" failed")[2] for line in stream.getvalue().splitlines()]
    assert [text for text in said if not text.startswith(" in 3")] == [
        ": rank 0 raised E: the same",
        " in the same way",
        ": rank 2 raised E: other",
    ]


def test_passes_that_take_turns_have_numbers_of_their_own() -> None:
    stream = io.StringIO()
    progress = progress_for(stream, silent=False)
    passes = _passes()[1:3]
    progress.sweep_started(passes)
    for record in passes:
        progress.pass_started(record)
    for record in passes:
        progress.pass_ended(_ended(record, 5.0))
    assert [line[:5] for line in stream.getvalue().splitlines()] == ["[1/2]", "[2/2]"]


def test_plain_torch_is_called_so() -> None:
    stream = io.StringIO()
    progress = progress_for(stream, silent=False)
    first = _passes()[0]
    progress.sweep_started([first])
    progress.pass_started(first)
    progress.pass_ended(_ended(first, 5.0))
    assert "1 rank, plain torch, repeat 1" in stream.getvalue()


def test_silent_option_prints_nothing() -> None:
    stream = io.StringIO()
    progress = progress_for(stream, silent=True)
    progress.sweep_started(_passes())
    progress.pass_ended(_ended(_passes()[0], 1.0))
    assert stream.getvalue() == ""


def test_a_terminal_shows_the_segment_and_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    progress = progress_for(stream, silent=False)
    record = _passes()[2]
    of_pass = PassProgress(PassPaths(tmp_path))
    of_pass.ranks[0] = RankState(0, segment="mnist-none-average", num_steps=17)
    progress.sweep_started([record])
    progress.pass_started(record)
    progress.pass_progressed(record, of_pass)
    progress.sweep_ended()
    assert "repeat 1: mnist, step 17" in stream.getvalue()
    # The cursor is there again, also where the sweep was interrupted in the midst of a pass.
    assert stream.getvalue().count("\x1b[?25l") == stream.getvalue().count("\x1b[?25h") == 1


def test_a_segment_is_named_by_its_setting() -> None:
    settings = bench_settings(compressions=("none", "fp16"))
    record = plan_design(settings, LOCAL_FOUR_CORES).passes[2]
    titles = {api.segment_title(record, part.segment.id) for part in record.segments}
    assert titles == {"mnist, Horovod", "mnist, fp16"}
    assert api.segment_title(record, "of-a-later-version") == "of-a-later-version"


def test_a_second_sweep_is_counted_behind_the_first() -> None:
    stream = io.StringIO()
    progress = progress_for(stream, silent=False)
    for passes in (_passes()[1:2], _passes()[1:3]):
        progress.sweep_started(passes)
        for record in passes:
            progress.pass_ended(_ended(record, 6.0))
        progress.sweep_ended()
    lines = stream.getvalue().splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["[1/1]", "[2/3]", "[3/3]"]


def test_the_bar_of_a_second_sweep_replaces_the_first() -> None:
    stream = io.StringIO()
    stream.isatty = lambda: True
    progress = progress_for(stream, silent=False)
    for passes in (_passes()[1:2], _passes()[1:3]):
        progress.sweep_started(passes)
        progress.pass_ended(_ended(passes[0], 6.0))
        progress.repeat_planned(passes[1:])
        progress.sweep_ended()
    bar = getattr(progress, "_progress")  # noqa: B009 - no part of the protocol
    (shown,) = bar.tasks
    assert (shown.completed, shown.total) == (1, 2)


def _progressed(folder: Path, text: str) -> PassProgress:
    paths = PassPaths(folder)
    with paths.stdout.open("a", encoding="utf-8") as file:
        file.write(text)
    return PassProgress(paths)


def test_what_rank_0_prints_is_shown_while_it_runs(tmp_path: Path) -> None:
    stream = io.StringIO()
    progress = progress_for(stream, silent=False, tee=True)
    (record,) = passes = _passes()[1:2]
    progress.sweep_started(passes)
    progress.pass_started(record)
    seen = _progressed(tmp_path, "[1,0]<stdout>:step 1\n[1,1]<stdout>:step 1 of 1\nuntagged\nbeg")
    progress.pass_progressed(record, seen)
    assert stream.getvalue() == "step 1\nuntagged\n"
    _progressed(tmp_path, "un\n[1,0]<stderr>: 9%|#\r 10%|##\x1b[0m\n[1,0]<stdout>:\x07end\n")
    progress.pass_ended(_ended(record, 2.0))
    assert stream.getvalue().splitlines()[2:] == [
        "begun",
        " 10%|##",
        "\\x07end",
        "[1/1] 1 rank, throughput, repeat 1: done in 2.00 s",
    ]


@pytest.mark.parametrize(
    ("num_passes", "tee", "is_shown"),
    [(1, None, True), (2, None, False), (2, True, True), (1, False, False)],
)
def test_a_terminal_shows_the_output_of_one_launch(
    tmp_path: Path, num_passes: int, tee: bool | None, is_shown: bool
) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: True
    progress = progress_for(stream, silent=False, tee=tee)
    passes = _passes()[1 : 1 + num_passes]
    progress.sweep_started(passes)
    progress.pass_started(passes[0])
    progress.pass_progressed(passes[0], _progressed(tmp_path, "[1,0]<stdout>:hello there\n"))
    progress.sweep_ended()
    assert ("hello there" in stream.getvalue()) == is_shown


def test_off_a_terminal_nothing_is_teed_and_a_line_comes_every_30_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    progress = progress_for(stream, silent=False, tee=None)
    (record,) = passes = _passes()[1:2]
    progress.sweep_started(passes)
    progress.pass_started(record)
    seen = _progressed(tmp_path, "[1,0]<stdout>:hello\n")
    for second in range(0, 75, 5):
        now[0] = float(second)
        if second == 40:
            seen.ranks[0] = RankState(0, num_steps=1200)
        progress.pass_progressed(record, seen)
    assert stream.getvalue() == (
        "    1 rank, throughput, repeat 1: starting after 30 s\n"
        "    1 rank, throughput, repeat 1: step 1,200 after 60 s\n"
    )
