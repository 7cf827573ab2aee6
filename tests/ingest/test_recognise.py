import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.load import load_run
from hvdprof.ingest.recognise import Kind, Recognised, recognise, recognise_all
from hvdprof.ingest.sources.workspace import Workspace
from hvdprof.rundir.rank_requests import Request, write_requests
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.recorded_runs import unpacked
from tests.builders.run_directory import PassSpec, write_run

TIMELINE = b'[\n{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 1, "pid": 1},\n'


def found_in(paths: list[Path]) -> list[Recognised]:
    with Workspace() as workspace:
        return recognise_all(paths, workspace).files


@pytest.mark.parametrize(
    ("content", "kind", "what"),
    [
        (TIMELINE, Kind.TIMELINE, "Horovod timeline"),
        (gzip.compress(TIMELINE, mtime=0), Kind.TIMELINE, "Horovod timeline"),
        (b"\x28\xb5\x2f\xfd rest", Kind.TIMELINE, "Horovod timeline"),
        (b"[", Kind.TIMELINE, "Horovod timeline"),
        (b'{"kind": "header", "rank": 0}\n', Kind.RECORDER, "recorder file"),
        (b'{"kind": "step", "rank"', Kind.RECORDER, "recorder file"),
        (b'{"kind":"sampling","rank":0}\n', Kind.SAMPLES, "samples of the recorder"),
        (b'{"kind":"samples","scope":"rank"}\n', Kind.SAMPLES, "samples of the recorder"),
        (b"np,samples/s\n1,2\n", Kind.TEXT, "text"),
        (b'{"pg_status": {}}', Kind.FLIGHT_RECORDER, "PyTorch Flight Recorder dump"),
        (b"\x80\x02}X\x09\0\0\0pg_statusq\0", Kind.FLIGHT_RECORDER, "PyTorch Flight Recorder dump"),
        (b'{"log":"{\\"pg_status\\": 1}\\n","stream":"stdout"}\n', Kind.TEXT, "text"),
        (
            b'{"distributedInfo": {"pg_config": []}, "traceEvents": [{"ph": "X", "cat": "cpu_op"',
            Kind.TRACE,
            "PyTorch profiler trace",
        ),
        (b'{"nccl_version": "2.29.1", "communicators": []}', Kind.RAS, "NCCL RAS report (JSON)"),
        (b"a log\n" + b"\0" * 4096 + b"\nthat goes on\n", Kind.TEXT, "text"),
        (
            b'{"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}, "traceEvents": '
            b'[{"ph": "X", "cat": "cpu_op", "name": "a", "tid": 1}]}',
            Kind.TRACE,
            "PyTorch profiler trace of rank 3 of 8",
        ),
        (
            b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "tid": 1}]}',
            Kind.TRACE,
            "PyTorch profiler trace",
        ),
        (
            b'[{"ph": "X", "name": "a", "tid": 1, "ts": 1}]',
            Kind.FOREIGN,
            "a Chrome trace of another program, not Horovod's",
        ),
        (b"", Kind.FOREIGN, "an empty file"),
        (b" \n\n", Kind.FOREIGN, "an empty file"),
        (b"PAR1....", Kind.FOREIGN, "a Parquet file"),
        (
            b"numCycle,collective,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inplace,"
            b"time,algbw,busbw,#wrong\n0,AllReduce,1,8,8,1,1024,float,sum,0,50.0,20.0,35.0,0\n",
            Kind.FOREIGN,
            "a CSV file of rccl-tests, whose text output is read",
        ),
        (bytes(range(256)) * 8, Kind.FOREIGN, "binary data of an unknown format"),
        (b"\0" * 100, Kind.FOREIGN, "binary data of an unknown format"),
    ],
)
def test_content_decides(tmp_path: Path, content: bytes, kind: Kind, what: str) -> None:
    path = tmp_path / "misleading.csv"
    path.write_bytes(content)
    found = recognise(path)
    assert (found.kind, found.what) == (kind, what)
    assert found.size_bytes == len(content)


def test_a_manifest_says_whether_it_is_whole_and_what_to_give(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "run", [PassSpec()]) / "manifest.json"
    found = recognise(whole)
    assert (found.kind, found.what) == (Kind.FOREIGN, "the manifest of a run directory")
    assert "hvdprof analyze FOLDER" in found.hint

    cut = tmp_path / "part.txt"
    cut.write_text(whole.read_text()[:-9])
    with pytest.raises(UnreadableInputError) as error:
        load_run([cut])
    assert error.value.message == (
        f"{cut} is the beginning of the manifest of a run directory; it is not read."
    )
    assert "copy the run directory again" in error.value.hint


@pytest.mark.heavy
def test_parts_of_a_run_directory_say_so_and_are_left_out_beside_recordings(tmp_path: Path) -> None:
    folder = unpacked("ddp-hang", tmp_path)
    (own,) = (folder / "passes").iterdir()
    write_requests(own / "recorder" / "request-0.json", [Request(0, True)])
    parts = {
        "recorder/ddp.json": "how a script wraps its model in DDP",
        "recorder/request-0.json": "what a watcher asks of a rank",
        "plan.json": "the plan of a launch",
        "watch/rank-0.json": "the state of a rank",
        "stalls.jsonl": "the stalls of a launch",
        "../../resume.json": "what --resume starts again",
    }
    for name, what in parts.items():
        with pytest.raises(UnreadableInputError, match=f"is {what}, part of a run dir") as caught:
            load_run([own / name])
        assert "hvdprof analyze FOLDER" in caught.value.hint
    found = [file.path.name for file in found_in([own / "recorder"])]
    assert found == ["rank-0.jsonl", "rank-1.jsonl"]
    (tmp_path / "alone").mkdir()
    (own / "plan.json").rename(tmp_path / "alone" / "plan.json")
    with pytest.raises(UnreadableInputError, match="the plan of a launch"):
        load_run([tmp_path / "alone"])


@pytest.mark.heavy
def test_a_run_directory_without_its_manifest_says_so(tmp_path: Path) -> None:
    folder = unpacked("ddp-hang", tmp_path)
    (folder / "manifest.json").unlink()
    notes = [note.text for note in load_run([folder]).notes]
    assert any(
        "no manifest.json" in text and "Copy the run directory whole" in text for text in notes
    )


def test_pages_and_sources_in_a_folder_are_no_output_unless_they_are_named(tmp_path: Path) -> None:
    error = "ValueError: quoted in a page\n"
    for name in ("README.md", "train.py", "job.out"):
        (tmp_path / name).write_text(error)
    kinds = {file.path.name: file.kind for file in found_in([tmp_path])}
    assert kinds == {"README.md": Kind.FOREIGN, "train.py": Kind.FOREIGN, "job.out": Kind.TEXT}
    (named,) = found_in([tmp_path / "README.md"])
    assert named.kind == Kind.TEXT
    (tmp_path / "job.out").unlink()
    with pytest.raises(UnreadableInputError, match=r"source code by its name \(\*\.md\)"):
        load_run([tmp_path])


def test_of_a_foreign_trace_the_hint_names_the_launcher_of_torch(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('[{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 3}]')
    with pytest.raises(UnreadableInputError) as caught:
        load_run([path])
    assert "torchrun for DDP and FSDP2" in caught.value.hint


def test_a_timeline_is_known_by_its_end_too(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\0" * 100_000 + TIMELINE)
    assert recognise(path).kind == Kind.TIMELINE


def test_folders_patterns_and_runs(tmp_path: Path) -> None:
    write_run(tmp_path / "logs" / "run", [PassSpec()])
    for name in ("b.txt", "a.txt", ".hidden"):
        (tmp_path / "logs" / name).write_text("text\n")
    (tmp_path / "logs" / ".hvdprof-cache").mkdir()
    (tmp_path / "logs" / ".hvdprof-cache" / "x.parquet").write_text("PAR1")
    found = found_in([tmp_path / "logs"])
    assert [one.path.name for one in found] == ["run", "a.txt", "b.txt"]
    assert [one.kind for one in found] == [Kind.RUN, Kind.TEXT, Kind.TEXT]
    pattern = found_in([tmp_path / "logs" / "*.txt", tmp_path / "logs" / "a.txt"])
    assert [one.path.name for one in pattern] == ["a.txt", "b.txt"]


def test_an_empty_folder_of_a_run_names_the_run(tmp_path: Path) -> None:
    (tmp_path / "run" / "passes" / "01" / "nccl").mkdir(parents=True)
    (tmp_path / "run" / "manifest.json").write_text("{}")
    with pytest.raises(UnreadableInputError) as caught:
        found_in([tmp_path / "run" / "passes" / "01" / "nccl"])
    assert caught.value.hint == f"It lies in one: hvdprof analyze {tmp_path / 'run'}"


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "nowhere", tmp_path / "*.txt", tmp_path / "empty"):
        with pytest.raises(UnreadableInputError):
            found_in([path])


def test_a_path_that_is_missing_names_what_lies_near(tmp_path: Path) -> None:
    (tmp_path / "timeline.json").write_bytes(TIMELINE)
    cases = {
        "timelime.json": ("does not exist.", f"Similar: {tmp_path / 'timeline.json'}"),
        "elsewhere": ("does not exist.", ""),
        "runs/one/a.json": (f"there is no folder {tmp_path / 'runs'}.", ""),
        "*.log": ("No file matches", ""),
    }
    for name, (message, hint) in cases.items():
        with pytest.raises(UnreadableInputError) as caught:
            found_in([tmp_path / name])
        assert message in caught.value.message
        assert caught.value.hint == hint


def test_a_path_that_is_missing_and_like_nothing_names_the_last_runs_there(tmp_path: Path) -> None:
    runs = [tmp_path / "runs" / f"2026112{day}-bench" for day in range(4)]
    for run in runs:
        run.mkdir(parents=True)
        (run / "manifest.json").write_text("{}")
    (tmp_path / "runs" / "kept").mkdir()
    last = ", ".join(map(str, runs[:0:-1]))
    for name in ("nothere", "runs/nothere", "nothere/below"):
        with pytest.raises(UnreadableInputError) as caught:
            found_in([tmp_path / name])
        assert caught.value.hint == f"Runs there: {last}"
    with pytest.raises(UnreadableInputError) as caught:
        found_in([tmp_path / "run" / "20261120-bench"])
    assert caught.value.hint == f"Similar: {tmp_path / 'runs'}"


@needs_corpus
def test_the_timelines_of_the_corpus() -> None:
    found = found_in([CORPUS / "horovod_timelines"])
    assert len(found) == 12
    assert {one.kind for one in found} == {Kind.TIMELINE}


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_small_reports_are_read_where_they_are_compressed(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    report = {"nccl_version": "2.28.3", "communicators": [{"ranks": [{"rank": 3, "host": "oak"}]}]}
    path = tmp_path / "ras.json.packed"
    path.write_bytes(pack(json.dumps(report).encode()))
    assert recognise(path).kind == Kind.RAS
    assert load_run([path]).table("collective_progress")["rank"].tolist() == [3]


def test_what_cannot_be_unpacked_at_all_says_why(tmp_path: Path) -> None:
    path = tmp_path / "job.log.xz"
    path.write_bytes(lzma.compress(b"step 1")[:12])
    with pytest.raises(UnreadableInputError, match="the xz data ends early"):
        load_run([path])
