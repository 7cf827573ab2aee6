import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hvdprof.cli.main import build_app
from hvdprof.errors import StorageError, UnreadableInputError, UsageError
from tests.analyze.files.test_joint_verdict import BENCH, SWEEP
from tests.builders.flight_dumps import dump, write_dumps
from tests.builders.nccl_log import job
from tests.builders.phase_logs import write_phase_logs
from tests.builders.rank_stacks import faulthandler, py_spy
from tests.builders.run_directory import PassSpec, write_run
from tests.builders.run_spec import SegmentSpec
from tests.builders.timeline_text import timeline_text
from tests.ingest.logs.test_fr_trace_text import RECORD
from tests.ingest.logs.test_nccl_tests_output import json_of, json_row
from tests.ingest.logs.test_process_stacks import json_dump
from tests.ingest.logs.test_ras_text import MISMATCH
from tests.ingest.logs.test_stall_warnings import FORMS
from tests.ingest.rundir.test_attached_run import watchdog

pytestmark = pytest.mark.slow

GDB = "Thread 1 (LWP 7):\n#0  0x1 in ncclAllReduce () from /l/libnccl.so.2\n#1  0x2 in main ()\n"


def invoke(*arguments: Any) -> Any:
    result = CliRunner().invoke(build_app(), [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def run(tmp_path: Path) -> Path:
    timeline = tmp_path / "horovod.json"
    timeline.write_text(timeline_text(SegmentSpec(num_steps=12), 2, 1_000_000_000))
    folder = tmp_path / "run"
    done = invoke("attach", folder, "--timeline", timeline, "--np", 2, "--name", "mine")
    assert f"hvdprof analyze {folder}" in done.stderr
    return folder


def test_a_forgotten_run_directory_is_not_a_file_to_replace(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("the only copy\n")
    with pytest.raises(UsageError, match="is a file: the run directory to make comes first") as one:
        invoke("attach", log, tmp_path / "other.log", "--force")
    assert one.value.hint == f"hvdprof attach CASE {log} ..."
    assert log.read_text() == "the only copy\n"


def test_every_command_reads_an_attached_run(run: Path, tmp_path: Path) -> None:
    assert "steps of about" in invoke("analyze", run).stdout
    result = json.loads(invoke("analyze", run, "--format", "json").stdout)
    assert result["verdict"]["efficiency"] is None
    for name in ("report.html", "report.md", "trace.json"):
        command = "export" if name == "trace.json" else "report"
        assert invoke(command, run, "-o", tmp_path / name).exit_code == 0
    trace = json.loads((tmp_path / "trace.json").read_text())
    names = {event["name"] for event in trace["traceEvents"]}
    assert "ALLREDUCE" in names
    invoke("convert", run, "-o", tmp_path / "tables")
    assert (tmp_path / "tables" / "inferred_steps.parquet").exists()
    counted = invoke("sql", run, "SELECT count(*) AS n FROM executions", "--format", "json")
    assert json.loads(counted.stdout)[0]["n"] > 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rates.log", BENCH.format(ranks=4, rate=147.0, total=588.0)),
        ("sweep.txt", SWEEP.format(end=2097152, first="10.49", second="13.98")),
        ("nccl.log", "\n".join(job("NET/Socket/0")) + "\n"),
        ("both.log", "\n".join(job()) + "\n" + BENCH.format(ranks=4, rate=147.0, total=588.0)),
        ("killed.log", "Process 1 exit with status code 137.\n"),
        ("ras.txt", MISMATCH),
    ],
)
def test_a_file_is_recognised_and_loses_nothing_that_it_shows_alone(
    tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    bare = json.loads(invoke("analyze", path, "--format", "json").stdout)["files"][0]
    invoke("attach", tmp_path / "run", path, "--np", 8)
    found = json.loads(invoke("analyze", tmp_path / "run", "--format", "json").stdout)
    (page,) = found["files"]
    assert page["facts"] == bare["facts"]
    assert page["kind"] == bare["kind"]
    assert found["verdict"]["sentence"] == bare["verdict"]
    shown = invoke("analyze", tmp_path / "run").stdout
    assert ("13.98" in text) == ("2.10 MB" in shown and "out of place" in shown)


def test_several_kinds_are_recognised_together(tmp_path: Path) -> None:
    timeline, log = tmp_path / "a.json", tmp_path / "b.log"
    timeline.write_text(timeline_text(SegmentSpec(num_steps=12), 2, 1_000_000_000))
    log.write_text("\n".join(job(num_ranks=2)) + "\n")
    dumps = {rank: dump(enqueued=6 - rank, completed=5, late_ns=rank) for rank in range(2)}
    folder = tmp_path / "run"
    invoke("attach", folder, timeline, log, write_dumps(tmp_path / "dumps", dumps))
    attached = json.loads((folder / "manifest.json").read_text())["settings"]["attached"]
    kinds = [file["kind"] for file in attached]
    assert kinds == ["timeline", "nccl-log", "recording", "recording"]
    sentence = json.loads(invoke("analyze", folder, "--format", "json").stdout)["verdict"]
    assert sentence["sentence"].startswith("Hang: rank 1 has not submitted nccl:all_reduce")
    assert "baseline" not in sentence["caveat"]


def test_what_cannot_be_attached_is_named(tmp_path: Path) -> None:
    program = tmp_path / "bin.dat"
    program.write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(UnreadableInputError, match="which cannot be attached"):
        invoke("attach", tmp_path / "run", program)


def test_a_recording_is_said_in_full_and_its_verdict_once(tmp_path: Path) -> None:
    dumps = {rank: dump(enqueued=6 - rank, completed=5, late_ns=rank) for rank in range(2)}
    folder = tmp_path / "run"
    invoke("attach", folder, "--recording", write_dumps(tmp_path / "dumps", dumps))
    text = " ".join(invoke("analyze", folder).stdout.split())
    assert text.startswith(
        "Hang: rank 1 has not submitted nccl:all_reduce (Seq 6 of process group default_pg 0); "
        "1 other rank blocked."
    )
    assert text.count("has not submitted") == 1
    assert "hang begins with ranks 1" in text
    (page,) = json.loads(invoke("analyze", folder, "--format", "json").stdout)["files"]
    assert page["verdict"].startswith("Hang: rank 1")
    assert page["facts"]["hang_ranks"] == "1"
    with pytest.raises(UnreadableInputError) as error:
        invoke("export", folder, "-o", tmp_path / "trace.json")
    command = error.value.hint.partition("hvdprof ")[2].split()
    assert invoke(*command[:-1], tmp_path / "trace.json").exit_code == 0
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_documents_hold_the_facts_that_the_terminal_prints(tmp_path: Path) -> None:
    dumps = {rank: dump(enqueued=6 - rank, completed=5, late_ns=rank) for rank in range(2)}
    folder = tmp_path / "run"
    invoke("attach", folder, "--recording", write_dumps(tmp_path / "dumps", dumps))
    printed = " ".join(invoke("analyze", folder).stdout.split())
    marked = invoke("report", folder).stdout.replace("\\", "")
    invoke("report", folder, "-o", tmp_path / "report.html")
    page = html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))

    facts = re.findall(r'<th scope="row" class="text">(.*?)</th><td class="text">(.*?)</td>', page)
    assert ("hang begins with ranks", "1") in facts
    for label, value in facts[:-1]:  # The last is of the run: when it was attached.
        lines = value.split("<br>")
        assert f"{label} {lines[0]}" in printed
        item = f" {value}" if len(lines) == 1 else "".join(f"\n  - {line}" for line in lines)
        assert f"- {label}:{item}\n" in marked
    question = "How long ranks wait and what a step loses (submissions have no ends)."
    assert all(question in text for text in (printed, marked, page))
    assert marked.count("has not submitted") == 1
    # Tiles and figures are of throughput, and plotly of figures.
    assert "Scaling efficiency" not in page
    assert "Plotly.setPlotConfig" not in page


def test_an_attached_run_is_not_overwritten(run: Path, tmp_path: Path) -> None:
    timeline = tmp_path / "horovod.json"
    with pytest.raises(StorageError, match="not overwritten"):
        invoke("attach", run, "--timeline", timeline, "--np", 2)
    assert invoke("attach", run, "--timeline", timeline, "--np", 2, "--force").exit_code == 0


def test_all_bad_files_are_named_and_the_others_attached(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.bin", "b.parquet", "c.json", "d.log")]
    for path, content in zip(
        paths, (b"\x7fELF" + bytes(9), b"PAR1", b'[{"ph":"B" cut', b"one\n"), strict=True
    ):
        path.write_bytes(content)
    run = write_run(tmp_path / "own", [PassSpec(size=1, segments=[SegmentSpec(num_steps=3)])])
    recorder = next(run.glob("passes/*/recorder/rank-0*"))
    result = invoke("attach", tmp_path / "run", *paths, recorder, "--np", 2)
    assert result.exit_code == 0
    said = result.stderr
    assert "a.bin is recognised as a program (ELF), which cannot be attached." in said
    assert "b.parquet is recognised as a Parquet file, which cannot be attached." in said
    assert "c.json: it holds no record of a Horovod timeline" in said
    assert f"{recorder} is recognised as recorder file. It belongs to a run directory" in said
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert [file["kind"] for file in manifest["settings"]["attached"]] == ["output"]
    assert len(manifest["warnings"]) == 4
    with pytest.raises(UnreadableInputError, match="No file can be attached") as error:
        invoke("attach", tmp_path / "none", *paths[:3], recorder)
    assert all(path.name in error.value.message for path in (*paths[:3], recorder))
    assert not (tmp_path / "none").exists()


def test_phase_logs_are_attached_as_they_are_analyzed(tmp_path: Path) -> None:
    logs = write_phase_logs(tmp_path, [[10.0] * 12, [30.0] * 12])
    invoke("attach", tmp_path / "run", *logs, "--name", "mine")
    own, alone = (
        json.loads(invoke("analyze", path, "--format", "json").stdout)["verdict"]["sentence"]
        for path in (tmp_path / "run", logs[0].parent)
    )
    assert own == alone.replace("structured_logs", "mine").replace(tmp_path.name, "mine")
    assert "rank 1" in own


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("stacks.txt", faulthandler("reduce") + py_spy("data", 31), "is loading data"),
        ("spy.json", json_dump("data"), "is loading data"),
        ("gdb.txt", GDB + py_spy("data", 31), "is loading data"),
        ("fr_trace.txt", RECORD.format(seq=71, name="all_reduce", missing="{2}"), "rank 2"),
        ("tests.json", json_of([json_row(8 << n, 20.0, 0.5) for n in range(5)]), "5 sizes"),
    ],
)
def test_what_analyze_reads_is_attached(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    (bare,) = json.loads(invoke("analyze", path, "--format", "json").stdout)["files"]
    invoke("attach", tmp_path / "run", path, "--np", 4)
    found = json.loads(invoke("analyze", tmp_path / "run", "--format", "json").stdout)
    (page,) = found["files"]
    assert (page["facts"], page["verdict"]) == (bare["facts"], bare["verdict"])
    assert said in found["verdict"]["sentence"]


def test_the_error_of_a_watchdog_leads_a_stall_in_another_output(tmp_path: Path) -> None:
    (tmp_path / "a_stall.log").write_text(FORMS["0.28"])
    (tmp_path / "b_watchdog.log").write_text(watchdog(0, 9))
    (tmp_path / "c_watchdog.log").write_text(watchdog(1, 5))
    invoke("attach", tmp_path / "run", *sorted(tmp_path.glob("*.log")), "--np", 2)
    found = json.loads(invoke("analyze", tmp_path / "run", "--format", "json").stdout)
    sentence = found["verdict"]["sentence"]
    assert sentence.startswith("c_watchdog.log: Error: rank 1 behind")
    assert [page["file"].rpartition("/")[2] for page in found["files"]] == [
        "c_watchdog.log",
        "b_watchdog.log",
        "a_stall.log",
    ]


def test_a_folder_of_logs_is_no_run_directory_to_replace(run: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "job.log").write_text("the only copy\n")
    with pytest.raises(StorageError, match="the run directory to make comes first") as error:
        invoke("attach", logs, logs / "job.log")
    assert "--force" not in error.value.message + error.value.hint
    with pytest.raises(StorageError) as error:
        invoke("attach", run, logs / "job.log")
    assert error.value.hint.startswith("Add --force")
