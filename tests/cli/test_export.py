import gzip
import json
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from hvdprof import api
from hvdprof.cli.main import build_app
from hvdprof.errors import HvdprofError, StorageError, UnreadableInputError, UsageError
from tests.builders.analysis import sweep
from tests.builders.nsys_exports import write_export
from tests.builders.profiler_traces import TracedJob, write_traces
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.sampled_lines import with_samples
from tests.builders.trace_format import checked_trace, named_threads
from tests.ingest.logs.test_nccl_inspector import header, kernel_times, perf, text


@pytest.fixture
def run_folder(tmp_path):
    def segment(**values):
        return SegmentSpec(num_steps=5, parts_ms=typical_parts(12.0, 3.0), **values)

    return write_run(
        tmp_path / "quick",
        [
            PassSpec(size=2, segments=[segment()]),
            PassSpec(
                size=2,
                mode="trace",
                hosts=["node1", "node2"],
                offset_ms=[0.0, 7.0],
                segments=[segment(timeline=True), segment(timeline=True, model="resnet18")],
            ),
        ],
    )


def export(*arguments):
    result = CliRunner().invoke(build_app(), ["export", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_recorded_run_becomes_a_valid_trace(run_folder, tmp_path, name):
    output = tmp_path / name
    assert export(run_folder, "-o", output).stderr == (
        f"Wrote {output}; open it at ui.perfetto.dev or chrome://tracing\n"
    )
    data = output.read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    trace = checked_trace(text)
    assert set(named_threads(trace).values()) == {
        "job / busbw (GB/s)",
        "job / bytes in flight",
        "job / samples per second",
        "rank 0 (node1) / steps",
        "rank 0 (node1) / phases",
        "rank 0 (node1) / gradients ready",
        "rank 1 (node2) / steps",
        "rank 1 (node2) / phases",
        "rank 1 (node2) / gradients ready",
        "Horovod timeline (rank 0's view) / executions",
        "Horovod timeline (rank 0's view) / negotiation",
    }


@pytest.mark.heavy
def test_a_standalone_timeline_is_refused_with_what_to_do_instead(tmp_path):
    timeline = tmp_path / "timeline.json"
    timeline.write_text(
        '[\n{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "grad"}},\n'
        '{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 1, "pid": 1},\n',
        encoding="utf-8",
    )
    with pytest.raises(UsageError, match=r"timeline\.json is no run directory") as raised:
        export(timeline, "-o", tmp_path / "trace.json")
    assert f"hvdprof attach RUN {timeline}" in str(raised.value.hint)
    assert f"hvdprof convert {timeline}" in str(raised.value.hint)
    assert not (tmp_path / "trace.json").exists()


@pytest.mark.heavy
def test_a_trace_without_collectives_is_refused_with_how_it_is_exported(tmp_path):
    (trace,) = write_traces(tmp_path, TracedJob(size=1, num_steps=5))
    content = json.loads(trace.read_text())
    content["traceEvents"] = [
        event
        for event in content["traceEvents"]
        if not any(word in event["name"] for word in ("c10d", "gloo", "Distributed"))
    ]
    trace.write_text(json.dumps(content))
    with pytest.raises(UsageError, match="holds no collectives") as raised:
        export(trace, "-o", tmp_path / "out.json")
    assert f"hvdprof attach RUN {trace}" in str(raised.value.hint)


@pytest.mark.heavy
def test_ranks_and_timeline_lie_on_one_clock(run_folder, tmp_path):
    output = tmp_path / "trace.json"
    export(run_folder, "-o", output, "--model", "mnist")
    events = checked_trace(output.read_text(encoding="utf-8"))["traceEvents"]
    of_step = {
        event["pid"]: event for event in events if event["name"] == "step 3" and event["ph"] == "X"
    }
    assert abs(of_step[0]["ts"] - of_step[1]["ts"]) < 1
    blocked = next(
        event
        for event in events
        if event["name"] == "blocked in synchronize()" and event["args"]["step"] == 3
    )
    execution = next(
        event for event in events if event["name"] == "ALLREDUCE" and event["args"]["step"] == 3
    )
    # The synthetic timeline fills rank 0's blocked time; other work of the step comes after it.
    assert abs(float(execution["dur"] - blocked["dur"])) < 2
    assert of_step[0]["ts"] < execution["ts"]
    assert execution["ts"] + execution["dur"] < of_step[0]["ts"] + of_step[0]["dur"]


@pytest.mark.heavy
def test_the_throughput_pass_has_no_timeline_lanes(run_folder, tmp_path):
    output = tmp_path / "trace.json"
    export(run_folder, "-o", output, "--pass", "01-np2-throughput-r1")
    lanes = named_threads(checked_trace(output.read_text(encoding="utf-8")))
    assert not [name for name in lanes.values() if name.startswith("Horovod")]


@pytest.mark.heavy
@pytest.mark.parametrize("option", ["--pass", "--model"])
def test_an_unknown_choice_lists_the_known_ones_and_leaves_no_file(run_folder, tmp_path, option):
    with pytest.raises(UsageError) as error:
        export(run_folder, "-o", tmp_path / "trace.json", option, "99")
    assert "02-np2-trace-r1: mnist, resnet18" in error.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["quick"]


@pytest.mark.slow
def test_a_file_is_replaced_only_by_force(run_folder, tmp_path):
    output = tmp_path / "trace.json"
    output.write_text("mine", encoding="utf-8")
    with pytest.raises(StorageError, match="not overwritten"):
        export(run_folder, "-o", output)
    assert output.read_text(encoding="utf-8") == "mine"
    export(run_folder, "-o", output, "--force")
    checked_trace(output.read_text(encoding="utf-8"))


def test_a_name_that_no_viewer_opens_is_refused(run_folder, tmp_path):
    with pytest.raises(UsageError, match=r"neither \.json nor \.json\.gz"):
        export(run_folder, "-o", tmp_path / "trace.html")


@pytest.mark.heavy
def test_a_path_that_is_too_long_is_refused_without_a_traceback(run_folder, tmp_path):
    long = tmp_path / ("x" * 300 + ".json")
    for run, output in ((run_folder, long), (long, tmp_path / "trace.json")):
        with pytest.raises(HvdprofError) as raised:
            export(run, "-o", output)
        assert "File name too long" in raised.value.message


KERNELS = [(0, 5_000_000, 0, "gemm"), (1_000_000, 4_000_000, 0, "ncclDevKernel_AllReduce_f32")]


def test_an_export_of_nsight_systems_becomes_a_trace(tmp_path):
    output = tmp_path / "trace.json.gz"
    shown = export(write_export(tmp_path / "a.sqlite", KERNELS, ["step"]), "-o", output)
    assert shown.stderr.startswith(f"Wrote {output}; open it at")
    trace = checked_trace(gzip.decompress(output.read_bytes()).decode())
    assert set(named_threads(trace).values()) == {
        "GPU 0, pid 4242 / NVTX ranges, thread 7",
        "GPU 0, pid 4242 / GPU 0 stream 7: computation",
        "GPU 0, pid 4242 / GPU 0 stream 7: NCCL",
    }
    assert trace["otherData"]["file"] == "a.sqlite"


@pytest.mark.heavy
def test_verbose_logs_of_the_inspector_become_a_trace(tmp_path):
    logs, output = tmp_path / "logs", tmp_path / "trace.json"
    logs.mkdir()
    for rank in (0, 1):
        record = {**header(rank), "coll_perf": perf(1, **kernel_times(rank, 100))}
        (logs / f"pid{rank}.log").write_text(text(record))
    export(logs, "-o", output)
    assert set(named_threads(checked_trace(output.read_text())).values()) == {
        f"rank {rank} (node-1) / group 0xab" for rank in (0, 1)
    }


def _empty(path):
    return write_export(path)


def _torn(path):
    whole = write_export(path, KERNELS * 500)
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    return whole


def _of_something_else(path):
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE books (title TEXT)")
        database.commit()
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_empty, "without CUDA kernels and NVTX ranges"),
        (_torn, "damaged SQLite file"),
        (_of_something_else, "SQLite"),
    ],
)
def test_a_database_without_events_is_refused_and_leaves_no_file(make, message, tmp_path):
    path = make(tmp_path / "a.sqlite")
    with pytest.raises(UnreadableInputError, match=message):
        export(path, "-o", tmp_path / "trace.json")
    assert [one.name for one in tmp_path.iterdir()] == ["a.sqlite"]


def test_exports_of_nsight_systems_are_exported_one_by_one(tmp_path):
    paths = [write_export(tmp_path / f"{name}.sqlite", KERNELS) for name in "ab"]
    with pytest.raises(UsageError, match="exported alone"):
        export(*paths, "-o", tmp_path / "trace.json")


def test_sampled_lines_become_a_flame_graph(tmp_path, monkeypatch):
    run = with_samples(api.load_run(write_run(tmp_path / "run", sweep({2: 50.0}))))
    monkeypatch.setattr(api, "load_run", lambda *_, **__: run)
    result = export(tmp_path / "run", "--format", "folded", "-o", tmp_path / "out")
    assert "for flamegraph.pl" in result.stderr
    assert "rank 0;backward;train.py:32 (main) " in (tmp_path / "out").read_text(encoding="utf-8")
