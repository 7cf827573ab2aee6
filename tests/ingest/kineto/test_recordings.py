"""Traces of several recordings in one folder: the whole one is read, or each with its command."""

import dataclasses
import json
import shlex
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hvdprof.api import analyze_run, load_run
from hvdprof.cli.main import build_app
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.kineto.recordings import Recording, ranked, recordings_of
from hvdprof.ingest.kineto.trace_file import read_trace_file
from hvdprof.model.notes import texts
from tests.builders.profiler_traces import TracedJob, write_traces

JOB = TracedJob(num_steps=12, late={(1, "backward"): 3000.0})
LATER = dataclasses.replace(JOB, shift_us=lambda rank: 2e6)


def found_in(*paths: Path) -> list[Recording]:
    return recordings_of(ranked([(path, read_trace_file(path)) for path in paths]))


def by_tensorboard(folder: Path, job: TracedJob, number: int) -> list[Path]:
    """Traces as torch.profiler.tensorboard_trace_handler names them: process and time."""
    paths = write_traces(folder / "new", job)
    return [
        path.rename(folder / f"node0_{4242 + rank}.1795648{number}{rank}1234.pt.trace.json")
        for rank, path in enumerate(paths)
    ]


def refusal(*paths: Path) -> UnreadableInputError:
    with pytest.raises(UnreadableInputError) as caught:
        load_run(list(paths))
    return caught.value


def commands(error: UnreadableInputError) -> list[list[str]]:
    lines = [line.strip() for line in error.message.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("hvdprof analyze ")]


def test_cycles_of_one_schedule_are_recordings_of_their_own(tmp_path: Path) -> None:
    first, second = by_tensorboard(tmp_path, JOB, 1), by_tensorboard(tmp_path, LATER, 2)
    found = found_in(first[1], second[0], second[1], first[0])
    assert [one.paths for one in found] == [first, second]
    assert all(one.is_whole for one in found)


def test_cycles_right_after_each_other_differ_in_their_common_time(tmp_path: Path) -> None:
    length_us = 12 * 12_500.0
    next_cycle = dataclasses.replace(JOB, shift_us=lambda rank: length_us + 20_000 * rank)
    first, second = by_tensorboard(tmp_path, JOB, 1), by_tensorboard(tmp_path, next_cycle, 2)
    assert [one.paths for one in found_in(*first, *second)] == [first, second]


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(JOB, size=3),
        dataclasses.replace(JOB, backend="nccl"),
        dataclasses.replace(JOB, shift_us=lambda rank: 60e6),
    ],
    ids=["size", "backend", "time"],
)
def test_what_sets_jobs_apart(tmp_path: Path, other: TracedJob) -> None:
    first = write_traces(tmp_path / "a", JOB, [0])
    second = write_traces(tmp_path / "b", other, [1])
    assert [one.paths for one in found_in(*first, *second)] == [first, second]


def test_process_groups_that_contradict_each_other_set_jobs_apart(tmp_path: Path) -> None:
    paths = write_traces(tmp_path, JOB)
    assert len(found_in(*paths)) == 1
    for path, ranks in zip(paths, ([0, 1], [1, 2]), strict=True):
        trace = json.loads(path.read_text())
        group = {"pg_name": "7", "pg_size": 2, "ranks": ranks}
        trace["distributedInfo"]["pg_config"] = [group]
        path.write_text(json.dumps(trace))
    assert len(found_in(*paths)) == 2


@pytest.mark.heavy
def test_two_whole_recordings_are_listed_with_commands_that_work(tmp_path: Path) -> None:
    by_tensorboard(tmp_path, JOB, 1)
    by_tensorboard(tmp_path, LATER, 2)
    error = refusal(tmp_path)
    assert error.message.startswith(
        "These 4 traces are of 2 recordings, which are not analyzed together; 2 of them have a "
        "trace of every rank:\n  - all 2 ranks on node0, 2026-10-01 12:17:07 UTC, "
    )
    for command in commands(error):
        result = CliRunner().invoke(build_app(), command[1:])
        assert result.exit_code == 0, result.output
        assert "rank 1, backward phase" in " ".join(result.output.split())
    assert len(commands(error)) == 2


@pytest.mark.heavy
def test_the_only_whole_recording_is_analyzed_and_others_are_named(tmp_path: Path) -> None:
    whole = by_tensorboard(tmp_path, JOB, 1)
    rest = by_tensorboard(tmp_path, LATER, 2)
    rest[1].unlink()
    run = load_run([tmp_path])
    assert "straggler (rank 1, backward phase)" in analyze_run(run).verdict.sentence
    (note,) = [one for one in texts(run.notes) if "another recording" in one]
    assert note.startswith(f"{rest[0]} is of another recording (rank 0 of 2 on node0, 2026-10-01")
    assert note.endswith(f"Analyze it alone: hvdprof analyze {rest[0]}")
    used = run.files[run.files["num_rows"] > 0]
    assert sorted(used["file"]) == sorted(map(str, whole))


def test_a_folder_with_one_recording_alone_stands_for_it(tmp_path: Path) -> None:
    write_traces(tmp_path / "run a", JOB)
    write_traces(tmp_path / "b", LATER)
    found = commands(refusal(tmp_path))
    assert [one[-1] for one in found] == [str(tmp_path / "b"), str(tmp_path / "run a")]


def test_many_files_of_one_folder_are_one_pattern(tmp_path: Path) -> None:
    job = dataclasses.replace(JOB, size=8, num_steps=2)
    by_tensorboard(tmp_path, job, 1)
    by_tensorboard(tmp_path, dataclasses.replace(job, shift_us=lambda rank: 2e6), 2)
    first, second = (one[2:] for one in commands(refusal(tmp_path)))
    assert (len(first), len(second)) == (1, 1)
    for (pattern,), number in ((first, "1"), (second, "2")):
        names = [path.name for path in tmp_path.glob(Path(pattern).name)]
        assert len(names) == 8
        assert all(f".1795648{number}" in name for name in names)


def test_recordings_without_all_ranks_are_listed_too(tmp_path: Path) -> None:
    write_traces(tmp_path / "a", JOB, [0])
    write_traces(tmp_path / "b", dataclasses.replace(JOB, size=8), [1, 2])
    error = refusal(tmp_path)
    assert "none of them has a trace of every rank" in error.message
    assert "- rank 0 of 2 on node0" in error.message
    assert "- 2 of 8 ranks on node0" in error.message
    assert "traces of all its ranks" in error.hint


def test_members_of_an_archive_have_no_command(tmp_path: Path) -> None:
    write_traces(tmp_path / "in" / "a", JOB)
    write_traces(tmp_path / "in" / "b", LATER)
    with tarfile.open(tmp_path / "traces.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "in", "in")
    error = refusal(tmp_path / "traces.tar.gz")
    assert not commands(error)
    assert error.message.count("unpack the archive, and analyze ") == 2


def test_traces_without_clocks_belong_to_their_folder(tmp_path: Path) -> None:
    bare = dataclasses.replace(JOB, with_base=False)
    first = write_traces(tmp_path / "a", bare)
    second = write_traces(tmp_path / "b", bare)
    found = found_in(second[1], *first, second[0])
    assert sorted(one.paths for one in found) == [first, second]
