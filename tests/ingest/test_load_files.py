import gzip
import io
import json
import os
import pickle
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from hvdprof.api import all_tables, analyze_files, load_run, load_tables
from hvdprof.api.tables import cached_communication
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.logs.printed_file import PrintedFile, read_printed_file
from hvdprof.model.notes import NoteCode, texts
from hvdprof.model.table_catalogue import TABLES
from hvdprof.report.answers.files import files_answer
from hvdprof.report.table_files import TableRows
from tests.builders.flight_dumps import dump, write_dumps
from tests.builders.nccl_log import call_line, job
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.recorder_lines import recorder_lines
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.timeline_writer import EPOCH_US, TimelineWriter

TIMELINE = """[
{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "allreduce.a"}},
{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 10, "pid": 1},
{"ph": "X", "name": "0", "ts": 10, "pid": 1, "dur": 0},
{"ph": "X", "name": "1", "ts": 30, "pid": 1, "dur": 0},
{"ph": "E", "ts": 30, "pid": 1},
{"ph": "B", "name": "ALLREDUCE", "ts": 40, "pid": 1},
{"ph": "B", "name": "GLOO_ALLREDUCE", "ts": 41, "pid": 1},
{"ph": "E", "ts": 59, "pid": 1},
{"ph": "E", "ts": 60, "pid": 1, "args": {"dtype": "float32", "shape": "[8]"}},
"""
MIXED = """[1,0]<stdout>:Iter #0: 10.0 img/sec per GPU
[1,0]<stdout>:Total img/sec on 2 GPU(s): 20.0 +-0.5
[1,0]<stderr>:[2026-11-20 21:56:18.000001: W a/b.cc:1] careful
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
           8             2     float     sum      -1    12.90    0.00    0.00      0    12.87    0.00    0.00      0
Process 1 exit with status code 7.
"""  # noqa: E501


def facts_of(path: Path) -> dict[str, object]:
    (page,) = analyze_files(load_run(path)).files
    return {fact.name: fact.value for fact in page.facts}


@pytest.mark.heavy
def test_a_standalone_timeline(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    path.write_text(TIMELINE)
    run = load_run(path)
    assert not run.recorded
    assert (run.manifest.name, run.manifest.passes, run.manifest.versions) == (path.name, [], {})
    assert set(run.events["pass_id"]) == {str(path)}
    assert set(run.events["phase"]) == {"negotiation", "operation", "activity", "mark"}
    facts = facts_of(path)
    assert (facts["num_ranks"], facts["backends"], facts["num_tensors"]) == (2, "GLOO", 1)
    assert (facts["num_uses"], facts["num_warmup_uses"]) == (1, 1)
    assert (facts["negotiation_median_ns"], facts["execution_median_ns"]) == (None, None)
    assert facts["time_zero"] == "the recording began"
    assert (facts["payload_bytes"], facts["span_ns"]) == (32, 50_000)
    assert facts["executing_share"] == pytest.approx(0.4)


@pytest.mark.heavy
def test_times_of_negotiation_and_execution_leave_out_warm_up(tmp_path: Path) -> None:
    writer = TimelineWriter()
    for wait_us in (90_000, *range(100, 2100, 100)):
        writer.begin("allreduce.a", "NEGOTIATE_ALLREDUCE")
        writer.now_us += wait_us
        writer.end("allreduce.a")
        writer.execute(["allreduce.a"])
    path = tmp_path / "timeline.json"
    path.write_text(writer.text())
    facts = facts_of(path)
    assert (facts["num_uses"], facts["num_warmup_uses"]) == (21, 1)
    assert facts["negotiation_median_ns"] == pytest.approx(1_051_000)
    assert facts["negotiation_p95_ns"] == pytest.approx(1_906_000)
    assert facts["execution_median_ns"] == facts["execution_p95_ns"] == 3_000
    assert facts["time_zero"] == "hvd.init(), 2023-11-14 22:13:20.000000 UTC"


@pytest.mark.heavy
@pytest.mark.parametrize("keep_from_bytes", [0, 32_000_000], ids=["kept", "parsed"])
def test_timelines_of_one_process_stand_on_one_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_from_bytes: int
) -> None:
    monkeypatch.setattr("hvdprof.ingest.storage.parquet_cache.CACHE_FROM_BYTES", keep_from_bytes)
    paths = [tmp_path / name for name in ("a.json", "b.json", "c.json")]
    for path, epoch_us, start_us in zip(
        paths, (EPOCH_US, EPOCH_US, EPOCH_US + 7), (0, 10**6, 0), strict=True
    ):
        writer = TimelineWriter(epoch_us=epoch_us)
        writer.now_us = start_us
        writer.negotiate(["allreduce.x"])
        writer.execute(["allreduce.x"])
        path.write_text(writer.text())
    run = load_run(paths)
    first, second, _ = (run.events[run.events["pass_id"] == str(path)] for path in paths)
    assert first["start_ns"].max() < second["start_ns"].min()
    assert run.table("timelines")["epoch_ns"].nunique() == 2
    assert texts(run.notes) == (
        f"{paths[0]} and {paths[1]} were written by one process: their times stand on one axis.",
    )


@pytest.mark.heavy
def test_calls_of_a_log_are_tied_to_executions_of_the_timeline_beside_it(tmp_path: Path) -> None:
    writer = TimelineWriter()
    # The bytes of two executions identify them; of two alike with one call, neither is identified.
    for elements in (100, 7, 7, 300):
        writer.negotiate(["allreduce.a", "allreduce.b"])
        shapes = {"allreduce.a": f"[{elements}]", "allreduce.b": "[50]"}
        writer.execute(["allreduce.a", "allreduce.b"], activities=["NCCL_ALLREDUCE"], shapes=shapes)
    timeline, log = tmp_path / "timeline.json", tmp_path / "nccl.log"
    timeline.write_text(writer.text())
    calls = [
        call_line(rank, count, n=n) for n, count in enumerate((9, 150, 57, 350)) for rank in (0, 1)
    ]
    log.write_text("\n".join([*job(), *calls]) + "\n")
    run = load_run([timeline, log])
    found = analyze_files(run)
    joined = found.derived["nccl_joined_calls"]
    rows = run.table("nccl_calls").loc[joined["call"]]
    assert rows["count"].tolist() == [150, 350]
    assert set(rows["rank"]) == {0}
    executions = run.table("executions").set_index("fusion_id").loc[joined["fusion_id"]]
    assert executions["size_bytes"].tolist() == rows["size_bytes"].tolist() == [600, 1400]
    (page,) = [page for page in found.files if page.kind == "NCCL log"]
    facts = {fact.name: fact.value for fact in page.facts}
    assert {name: facts[name] for name in facts if "joined" in name or "ambig" in name} == {
        "num_joined_calls": 2,
        "num_unjoined_calls": 2,
        "num_unjoined_executions": 2,
        "num_ambiguous_pairs": 1,
    }


def test_every_part_of_a_mixed_file(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(MIXED)
    run = load_run(str(path))
    assert set(run.tables) == {
        "files",
        "horovod_log",
        "incidents",
        "nccl_test_runs",
        "nccl_tests",
        "printed_rates",
        "throughput",
    }
    (row,) = run.table("files").to_dict("records")
    assert row["kind"] == (
        "Horovod log, output of a job, nccl-tests output, synthetic_benchmark output"
    )
    assert (row["num_lines"], row["num_rows"]) == (6, 1 + 1 + 1 + 2 + 2 + 1)


def test_recordings_of_one_folder_are_one_launch(tmp_path: Path) -> None:
    spec = PassSpec(size=2, offset_ms=[0, 700], segments=[SegmentSpec(num_steps=3)])
    for rank in range(2):
        lines = [json.dumps(line) for line in recorder_lines(spec, rank)]
        (tmp_path / f"of-{rank}.data").write_text("\n".join(lines) + "\n")
    run = load_run(tmp_path)
    assert sorted(run.ranks["rank"]) == [0, 1]
    starts = run.steps.pivot_table(index="step", columns="rank", values="start_ns")
    assert (starts[0] - starts[1]).abs().max() <= 1
    (page,) = analyze_files(run).files
    assert page.kind == "2 recorder files"


@pytest.mark.parametrize("as_run", [False, True])
def test_recordings_of_two_jobs_are_never_joined(tmp_path: Path, as_run: bool) -> None:
    run = write_run(tmp_path / "run", [PassSpec(size=2, segments=[SegmentSpec(num_steps=3)])])
    (first,) = run.glob("passes/*/recorder/rank-0.jsonl")
    header, rest = first.read_text().split("\n", 1)
    of_other = json.loads(header) | {"wall_ns": json.loads(header)["wall_ns"] + 7_200_000_000_000}
    first.write_text(f"{json.dumps(of_other)}\n{rest}")
    loaded = load_run(run if as_run else first.parent)
    assert set(loaded.steps["rank"]) == {0}
    (note,) = [note for note in loaded.notes if note.code == NoteCode.LEFT_OUT]
    assert note.text.endswith("at another time than other ranks, by another job: left out.")
    if not as_run:
        (left_out,) = filter(None, loaded.table("files")["left_out"])
        assert left_out == note.text


def test_samples_beside_recordings_do_not_take_their_place(tmp_path: Path) -> None:
    spec = PassSpec(size=2, segments=[SegmentSpec(num_steps=3)])
    for rank in range(2):
        lines = [json.dumps(line) for line in recorder_lines(spec, rank)]
        (tmp_path / f"rank-{rank}.jsonl").write_text("\n".join(lines) + "\n")
        (tmp_path / f"lines-{rank}.jsonl").write_text(f'{{"kind":"sampling","rank":{rank}}}\n')
    run = load_run(tmp_path)
    assert sorted(run.ranks["rank"]) == [0, 1]
    (note,) = run.notes
    assert note.text.endswith(
        "lines-0.jsonl and 1 more: samples are read with their run directory."
    )
    with pytest.raises(UnreadableInputError, match="samples are read with their run") as caught:
        load_run([tmp_path / "lines-0.jsonl", tmp_path / "lines-1.jsonl"])
    assert caught.value.hint == "Give it: hvdprof analyze RUN"


def test_an_evaluation_is_left_out_only_where_all_ranks_are_given(tmp_path: Path) -> None:
    segment = SegmentSpec(num_warmup_batches=0, num_steps=3)
    spec = PassSpec(size=2, segments=[segment])
    for rank in (0, 1):
        lines = list(recorder_lines(spec, rank))
        for line in lines:
            if line["kind"] == "step" and line["step"] == 1:
                line |= {"evaluation": True, "phases": [["evaluation", 0, 1_000_000]]}
        path = tmp_path / f"rank-{rank}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    alone = load_run([tmp_path / "rank-0.jsonl"]).table("steps")
    assert alone["warmup"].tolist() == [False] * 3
    both = load_run([tmp_path]).table("steps").sort_values(["rank", "step"])
    assert both["warmup"].tolist() == [False, True, False] * 2


@pytest.mark.heavy
def test_every_table_is_as_declared(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(MIXED)
    (tmp_path / "timeline.json").write_text(TIMELINE)
    tables = all_tables(load_run(tmp_path))
    declared = {table.name: table for table in TABLES}
    assert {"events", "files", "timelines", "throughput_scaling"} <= set(tables)
    for name, frame in tables.items():
        assert list(frame.columns) == declared[name].column_names
        dtypes = [column.dtype for column in declared[name].columns]
        assert [str(dtype) for dtype in frame.dtypes] == dtypes


@pytest.mark.heavy
def test_files_of_one_kind_stand_below_each_other(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.out").write_text(MIXED.replace("careful", f"careful {number}"))
    run = load_run(tmp_path)
    assert sorted(run.table("horovod_log")["message"]) == ["careful 0", "careful 1", "careful 2"]
    assert run.table("throughput")["file"].nunique() == 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"nothing known\n", "text that holds nothing known"),
        (b"", "an empty file"),
        (b"PAR1", "a Parquet file"),
    ],
)
def test_nothing_usable_is_one_error_that_says_what_it_is(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(UnreadableInputError, match=said) as caught:
        load_run(path)
    named = {"text": "Looked for"}.get(said.split()[0])
    assert (named or "hvdprof reads run directories") in caught.value.hint


def test_a_useless_file_beside_a_useful_one_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("nothing known\n")
    (tmp_path / "b.txt").write_text(MIXED)
    files = load_run(tmp_path).table("files").set_index("file")["num_rows"]
    assert list(files > 0) == [False, True]


def test_a_run_directory_is_not_read_with_others(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [PassSpec()])
    (tmp_path / "job.out").write_text(MIXED)
    with pytest.raises(UnreadableInputError, match="read alone"):
        load_run([folder, tmp_path / "job.out"])


@pytest.mark.heavy
def test_progress_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.out").write_text(MIXED)
    (tmp_path / "b.out").write_text(MIXED)
    reports: list[tuple[str, int, int]] = []
    load_run(tmp_path, progress=lambda *one: reports.append(one))
    size = len(MIXED.encode())
    assert [(Path(file).name, done, total) for file, done, total in reports] == [
        ("a.out", 0, 2 * size),
        ("a.out", size, 2 * size),
        ("b.out", size, 2 * size),
        ("b.out", 2 * size, 2 * size),
    ]


def test_logs_read_at_once_give_what_they_give_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of their files, with the reason of one that cannot be read."""

    def read(path: Path, **options: Any) -> PrintedFile:
        if path.name == "05.out":
            raise PermissionError(13, "Permission denied")
        return read_printed_file(path, **options)

    monkeypatch.setattr("hvdprof.ingest.logs.printed_file.read_printed_file", read)
    for place in range(12):
        (tmp_path / f"{place:02}.out").write_text(MIXED * (12 - place))
    alone, at_once = (load_run(tmp_path, jobs=jobs) for jobs in (1, 4))
    assert [text for text in texts(alone.notes) if "05.out" in text]
    assert alone.notes == at_once.notes
    assert alone.frames["files"]["num_lines"].nunique() > 6
    assert alone.frames.keys() == at_once.frames.keys()
    for name, frame in alone.frames.items():
        pd.testing.assert_frame_equal(frame, at_once.frames[name])


def test_no_log_is_read_on_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def read(
        path: Path, *, progress: Callable[[int, int], None], **_options: object
    ) -> PrintedFile:
        if path.name == "0.out":
            assert begun.wait(10)
            return PrintedFile()
        begun.set()
        try:
            for _ in range(1_000):
                time.sleep(0.01)
                progress(0, 1)
        finally:
            ended.set()
        pytest.fail("read to its end")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hvdprof.ingest.logs.printed_file.read_printed_file", read)
    monkeypatch.setattr("hvdprof.ingest.load_files._add_printed", interrupted)
    for place in range(2):
        (tmp_path / f"{place}.out").write_text(MIXED)
    # What was raised holds the frames, and with them the iterator.
    with pytest.raises(KeyboardInterrupt) as held:
        load_run(tmp_path, jobs=2)
    assert ended.is_set()
    assert held.tb


@pytest.mark.slow
def test_a_big_run_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_run(tmp_path, [PassSpec(size=2, missing_ranks=[1])])
    monkeypatch.setattr("hvdprof.ingest.storage.parquet_cache.CACHE_FROM_BYTES", 0)
    first = load_run(folder)
    monkeypatch.setattr("hvdprof.ingest.load_run._parsed", lambda *_: pytest.fail("parsed again"))
    again = load_run(folder)
    assert again.notes == first.notes != ()
    for name, frame in first.tables.items():
        assert frame.equals(again.tables[name]), name


@pytest.mark.heavy
@needs_corpus
def test_the_scaling_of_the_fake_gradient_sweep() -> None:
    paths = [
        CORPUS / "benchmarks" / f"tflogs_fake120MB_{np}workers_rank0.stdout.txt"
        for np in (2, 4, 16, 32)
    ]
    scaling = analyze_files(load_run(paths)).throughput_scaling
    assert list(scaling["samples_per_s"]) == [88.58, 170.20, 524.43, 996.52]
    assert list(scaling["efficiency"].round(2)) == [1.0, 0.96, 0.74, 0.70]
    assert set(scaling["baseline_np"]) == {2}


@pytest.mark.heavy
@needs_corpus
def test_published_tables_agree_with_the_speedup_they_state() -> None:
    for name in ("dlperf_tf1_horovod_resnet50_tables.md", "dlperf_tf1_horovod_bert_tables.md"):
        run = load_run(CORPUS / "benchmarks" / name)
        stated = run.table("throughput")["stated_speedup"]
        computed = analyze_files(run).throughput_scaling["speedup"]
        assert len(stated) >= 20
        assert ((stated - computed).abs() / computed).median() < 0.001
        assert ((stated - computed).abs() / computed).max() < 0.02


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize("kind", ["horovod_logs", "benchmarks", "specimens"])
def test_every_file_of_the_corpus_is_listed(kind: str) -> None:
    files = load_run(CORPUS / kind).table("files")
    assert len(files) == len([path for path in (CORPUS / kind).iterdir() if path.is_file()])


@pytest.mark.heavy
def test_a_name_that_is_not_utf_8_is_read_and_shown(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    for name, content in ((b"t\xe9.json", TIMELINE), (b"j\xff.out", MIXED)):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text(content)
    (folder / "nccl.log").write_text("\n".join(job()) + "\n")
    spec = PassSpec(size=1, segments=[SegmentSpec(num_steps=3)])
    lines = [json.dumps(line) for line in recorder_lines(spec, 0)]
    Path(os.fsdecode(os.fsencode(folder) + b"/r\xe9.data")).write_text("\n".join(lines) + "\n")
    run = load_run(folder)
    shown = str(tmp_path / r"caf\xe9")
    assert set(run.table("files")["file"]) == {
        shown + name for name in (r"/t\xe9.json", r"/j\xff.out", "/nccl.log", r"/r\xe9.data")
    }
    assert set(run.events["pass_id"]) == {shown, shown + r"/t\xe9.json"}
    assert (run.table("files")["num_rows"] > 0).all()
    text = io.StringIO()
    files_answer(analyze_files(run)).write("json", text)
    text.getvalue().encode("utf-8")
    for frame in all_tables(run).values():
        pa.Table.from_pandas(frame)


@pytest.mark.heavy
def test_a_large_timeline_with_such_a_name_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hvdprof.ingest.storage.parquet_cache.CACHE_FROM_BYTES", 0)
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/t\xe9.json"))
    path.write_text(TIMELINE)
    tables = load_tables([path])
    assert set(frame_of(tables["events"])["pass_id"]) == {str(tmp_path / r"t\xe9.json")}
    assert len(tables["collectives"])


def frame_of(rows: TableRows) -> pd.DataFrame:
    return rows if isinstance(rows, pd.DataFrame) else pd.concat(list(rows.frames()))


def test_one_unreadable_file_does_not_keep_the_others_from_being_read(tmp_path: Path) -> None:
    (tmp_path / "a.out").write_text(MIXED)
    # A regular file that can be opened, and whose reading fails.
    (tmp_path / "b.out").symlink_to("/proc/self/mem")
    os.mkfifo(tmp_path / "c.out")
    run = load_run(tmp_path)
    assert texts(run.notes) == (
        f"{tmp_path}/c.out is a named pipe; it is not read.",
        f"{tmp_path}/b.out cannot be read: Input/output error.",
    )
    rows = run.table("files").set_index("file")["num_rows"]
    assert list(rows > 0) == [True, False]
    with pytest.raises(UnreadableInputError, match="Input/output error"):
        load_run(tmp_path / "b.out")


@pytest.mark.heavy
@pytest.mark.parametrize("keep_from_bytes", [0, 32_000_000], ids=["kept", "parsed"])
def test_an_archive_stands_for_the_files_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_from_bytes: int
) -> None:
    monkeypatch.setattr("hvdprof.ingest.storage.parquet_cache.CACHE_FROM_BYTES", keep_from_bytes)
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "a.out").write_text(MIXED)
    (folder / "t.json").write_text(TIMELINE)
    archive = tmp_path / "job.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(folder, "job")
    expected, found = load_tables([folder]), load_tables([archive])
    assert set(expected) == set(found)
    for name in ("events", "printed_rates", "collectives"):
        rows = frame_of(found[name])
        assert len(rows) == len(frame_of(expected[name]))
        column = "pass_id" if "pass_id" in rows else "file"
        assert all(str(one).startswith(f"{archive}/job/") for one in rows[column])


@pytest.mark.heavy
def test_tables_of_an_archive_are_its_own_after_a_later_one_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hvdprof.ingest.storage.parquet_cache.CACHE_FROM_BYTES", 0)
    archive = tmp_path / "job.zip"
    runs = []
    for text in (TIMELINE, TIMELINE.replace("allreduce.a", "allreduce.other")):
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("t.json", text)
        runs.append(load_run(archive))
    names = []
    for run in runs:
        ((file_name, cached),) = run.cached.items()
        tables = cached_communication(file_name, cached, 2, lambda *_: None)
        names.append(set(frame_of(tables["tensors"])["tensor"]))
    assert names == [{"allreduce.a"}, {"allreduce.other"}]


def test_an_archive_in_a_folder_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.out").write_text(MIXED)
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("c.out", MIXED)
    run = load_run(tmp_path)
    assert texts(run.notes) == (f"{tmp_path}/b.zip is an archive; name it to read what it holds.",)
    assert set(load_run(tmp_path / "b.zip").table("printed_rates")["file"]) == {
        f"{tmp_path}/b.zip/c.out"
    }


@pytest.mark.heavy
def test_a_run_directory_in_an_archive_is_a_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [PassSpec(size=2)])
    archive = tmp_path / "run.tar"
    with tarfile.open(archive, "w") as file:
        file.add(folder, "runs/run")
    run = load_run(archive)
    assert run.recorded
    assert len(run.steps) == len(load_run(folder).steps) > 0


def test_traces_without_steps_and_collectives_say_what_to_run(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"{rank}.json").write_text(
            json.dumps(
                {
                    "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
                    "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "tid": 1}],
                }
            )
        )
    with pytest.raises(UnreadableInputError) as caught:
        load_run(tmp_path)
    assert "holds neither steps nor collectives" in caught.value.message
    assert "hvdprof run --launcher torchrun --np 2 -- python" in caught.value.hint
    assert "Horovod" not in caught.value.hint


def test_each_refused_file_of_a_folder_has_its_own_reason(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("nothing\n")
    (tmp_path / "dump_0").write_bytes(pickle.dumps({"pg_status": print}, protocol=2))
    (tmp_path / "dump_1").write_bytes(pickle.dumps(dump(), protocol=2)[:-300])
    with pytest.raises(UnreadableInputError, match="None of the 3 files") as caught:
        load_run(tmp_path)
    head, *reasons = caught.value.message.split("\n  ")
    assert head.endswith("(1: text).")
    assert [reason.partition(" ")[0] for reason in reasons] == [
        str(tmp_path / f"dump_{rank}") for rank in (0, 1)
    ]
    assert "would call" in reasons[0]
    assert "ends in the middle" in reasons[1]
    assert "Looked for" not in caught.value.hint


def test_a_file_with_a_reason_lists_nothing_that_was_looked_for(tmp_path: Path) -> None:
    write_dumps(tmp_path, {1: dump(ranks=(3,))})
    with pytest.raises(UnreadableInputError) as caught:
        load_run(tmp_path)
    assert "are those of rank 3" in caught.value.message
    assert "Looked for" not in caught.value.hint


def test_a_table_of_files_says_why_a_file_is_left_out(tmp_path: Path) -> None:
    write_dumps(tmp_path, {0: dump(), 5: dump(late_ns=7)})
    left_out = load_run(tmp_path).files.set_index("file")["left_out"]
    assert left_out[str(tmp_path / "dump_0")] == ""
    assert "do not include that rank" in left_out[str(tmp_path / "dump_5")]


@pytest.mark.parametrize("name", ["steps.csv.gz", "steps.csv.zst"])
def test_of_a_cut_file_with_nothing_known_no_list_of_kinds_is_the_answer(
    tmp_path: Path, name: str
) -> None:
    text = b"step,rank,loss\n" + b"".join(b"%d,0,%d\n" % (i, i * i) for i in range(20_000))
    packed = gzip.compress(text) if name.endswith("gz") else pa.compress(text, "zstd", asbytes=True)
    (tmp_path / name).write_bytes(packed[:3000])
    with pytest.raises(UnreadableInputError, match="data ends early") as caught:
        load_run([tmp_path / name])
    assert caught.value.hint.endswith("Copy the whole file, and read it again.")
