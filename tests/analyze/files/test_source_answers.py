"""The answers of every format, joined with the formats and with the tables of their readers."""

import os
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from hvdprof.analyze.files.file_analysis import analyze_files
from hvdprof.analyze.files.source_answers import ANSWERS, ANSWERS_OF
from hvdprof.api import load_run
from hvdprof.ingest.logs.printed_file import PARTS
from hvdprof.ingest.logs.printed_rates import PrintedRates
from hvdprof.model.file_page import FilePage, Gravity
from hvdprof.model.sources import NCCL_LOG, RATES, SOURCES, source_of
from hvdprof.model.tables.log_tables import FILES, LOG_TABLES, NOTES, THROUGHPUT_SCALING
from hvdprof.model.tables.nccl_call_tables import NCCL_CALL_TABLES
from hvdprof.model.tables.nccl_tables import NCCL_TABLES
from hvdprof.model.tables.nsys_tables import NSYS_TABLES
from hvdprof.model.tables.printed_tables import BANDWIDTH_TABLES, RANK_STACKS, TRAINING_LOG_TABLES
from hvdprof.model.tables.rank_collective_tables import (
    COLLECTIVE_PROGRESS,
    COLLECTIVE_TIMEOUTS,
    INSPECTOR_COLLECTIVES,
    RANK_COLLECTIVES,
    RAS_STATEMENTS,
)
from hvdprof.model.tables.timeline_tables import TIMELINES
from hvdprof.report.answers.files import files_answer
from hvdprof.report.screen.file_tiles import file_tiles
from tests.builders.nccl_log import init_line, job, of_rank
from tests.builders.places import ROOT

FOREIGN = (
    *(table for table in LOG_TABLES if table not in (FILES, NOTES, THROUGHPUT_SCALING)),
    *NSYS_TABLES,
    *TRAINING_LOG_TABLES,
    *BANDWIDTH_TABLES,
    *NCCL_TABLES,
    *NCCL_CALL_TABLES,
    *(COLLECTIVE_PROGRESS, COLLECTIVE_TIMEOUTS, INSPECTOR_COLLECTIVES, RAS_STATEMENTS),
    *(RANK_COLLECTIVES, RANK_STACKS, TIMELINES),
)


UNOPENED = "oak0:7000:7050 [0] misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed"
LOGGED = "[0]<stderr>:[2026-11-20 21:46:30.359090: {} /src/horovod/common/timeline.cc:320] {}\n"


def test_every_format_has_answers_once():
    assert len(ANSWERS) == len(SOURCES)
    assert set(ANSWERS_OF) == set(SOURCES)


@pytest.mark.parametrize("table", FOREIGN, ids=lambda table: table.name)
def test_every_foreign_table_stands_in_an_entry(table):
    assert [one.source for one in ANSWERS if table.name in one.tables]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_an_entry_has_the_tables_of_its_reader(part):
    source = RATES if part is PrintedRates else source_of(part.KIND)
    assert {table.name for table in part.TABLES} <= ANSWERS_OF[source].tables


def test_files_have_a_page_of_their_own_or_share_one():
    for one in ANSWERS:
        assert one.pages or one.facts or one.source is NCCL_LOG


READER = """
from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.model.tables.log_tables import DUMMY

class DummyLog(PartReader):
    TABLES = (DUMMY,)
    KIND = "dummy log"

    @property
    def wanted(self):
        return "dummy="

    def take(self, line):
        if line.text.startswith("dummy="):
            self.add(line.number, value=float(line.text[6:]))
"""
TABLE = """\
DUMMY = Table("dummies", "One dummy.", (FILE, LINE, Column("value", "float64", "It.", "s")))
LOG_TABLES: tuple[Table, ...] = (
    DUMMY,
"""
SOURCE = """\
DUMMY = Source(
    ("dummy log",), "logs of dummies", AttachedKind.OUTPUT,
    (ShownFact("dummy_s", _BAD, "Dummy"),))
SOURCES = (
    DUMMY,
"""
SAYS = """
from hvdprof.model.file_page import Fact, FileVerdict

def dummy_facts(rows):
    return [Fact("dummy_s", "dummy", float(rows["value"].max()), "s")]

def dummy_verdict(rows):
    return FileVerdict(f"Dummy of {rows['value'].max():.0f} s." if len(rows) else "")
"""
ANSWER = """\
ANSWERS = (
    Answers(
        sources.DUMMY,
        [_of(dummy.dummy_facts, log.DUMMY)],
        _of(dummy.dummy_verdict, log.DUMMY),
    ),
"""
TILES = """
from hvdprof.api import analyze_files, load_run
from hvdprof.report.screen.file_tiles import file_tiles
(page,) = analyze_files(load_run("job.log")).files
print(*(tile.title for tile in file_tiles(page)))
"""


def insert(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text(encoding="utf-8")
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_a_source_is_added_in_six_files(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "dashboards", "bench_models")
    package = shutil.copytree(ROOT / "hvdprof", tmp_path / "hvdprof", ignore=ignored)
    (package / "ingest/logs/dummy_log.py").write_text(READER)
    insert(
        package / "ingest/logs/printed_file.py",
        ("    ThroughputTable,\n)", "    ThroughputTable,\n    DummyLog,\n)"),
        (
            "import Autotune\n",
            "import Autotune\nfrom hvdprof.ingest.logs.dummy_log import DummyLog\n",
        ),
    )
    insert(package / "model/tables/log_tables.py", ("LOG_TABLES: tuple[Table, ...] = (\n", TABLE))
    insert(package / "model/sources.py", ("SOURCES = (\n", SOURCE))
    (package / "analyze/files/dummy.py").write_text(SAYS)
    insert(
        package / "analyze/files/source_answers.py",
        ("ANSWERS = (\n", ANSWER),
        (
            "from hvdprof.model import sources\n",
            "from hvdprof.analyze.files import dummy\nfrom hvdprof.model import sources\n",
        ),
    )
    (tmp_path / "job.log").write_text("dummy=3\ndummy=7\n")
    (tmp_path / "other.log").write_text("nothing\n")

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return " ".join(f"{done.stdout} {done.stderr}".split())

    shown = run("-m", "hvdprof", "analyze", "job.log")
    assert shown.startswith("Dummy of 7 s. job.log dummy log, 16 B dummy 7.00 s")
    assert "logs of dummies" in run("-m", "hvdprof", "analyze", "other.log")
    assert "Wrote run" in run("-m", "hvdprof", "attach", "run", "job.log", "--np", "2")
    assert run("-m", "hvdprof", "analyze", "run").startswith("Dummy of 7 s.")
    assert run("-c", TILES) == "Dummy"


def page_of(folder: Path, text: str) -> FilePage:
    path = folder / "job.log"
    path.write_text(text)
    (page,) = analyze_files(load_run(path)).files
    return page


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            job(),
            "Nothing wrong found: NCCL 2.20.5, 4 ranks, RoCE with GPUDirect; "
            "hvdprof reads no bandwidth in this file.",
        ),
        (
            job("NET/Socket/0"),
            "Nothing wrong found: NCCL 2.20.5, 4 ranks, TCP; "
            "hvdprof reads no bandwidth in this file.",
        ),
        (
            job(num_ranks=2),
            "Nothing wrong found: NCCL 2.20.5, 2 ranks, peer access; "
            "hvdprof reads no bandwidth in this file.",
        ),
        (
            job()[:2],
            "No warning or error in 1 NCCL line: NCCL 2.20.5; "
            "hvdprof reads no communicator, connection or bandwidth in this file.",
        ),
        (
            [of_rank(0, init_line(0, 4, "START", comm_id="0x51ab"))],
            "No warning or error in 1 NCCL line: 4 ranks, Init COMPLETE of 0 of 1 ranks seen; "
            "hvdprof reads no connection or bandwidth in this file. "
            "Note: log ends during NCCL initialization.",
        ),
    ],
    ids=["whole", "tcp", "one host", "two lines", "cut in init"],
)
def test_an_nccl_log_without_trouble_says_what_it_shows(
    tmp_path: Path, lines: list[str], sentence: str
) -> None:
    page = page_of(tmp_path, "\n".join(lines) + "\n")
    assert (page.verdict, page.gravity) == (sentence, Gravity.CLEAN)


def test_lines_that_healthy_jobs_print_are_no_warnings(tmp_path: Path) -> None:
    page = page_of(tmp_path, "\n".join([*job()[:5], UNOPENED, UNOPENED, *job()[5:]]) + "\n")
    facts = {fact.name: fact for fact in page.facts}
    assert facts["num_problems"].value == 0
    assert facts["num_harmless"].text == "2, such as: Call to ibv_open_device failed"
    assert [
        tile.value for tile in file_tiles(page) if tile.title == "NCCL warnings and errors"
    ] == ["0"]


def test_logs_of_one_job_have_one_page(tmp_path: Path) -> None:
    for rank in range(4):
        process = f"oak{rank // 2}:{7000 + 100 * rank}:"
        lines = [line for line in job() if line.startswith(process)]
        name = process.replace(":", ".") + "log"
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (page,) = analyze_files(load_run(tmp_path)).files
    assert (page.kind, page.file.endswith("oak0.7000.log and 3 more")) == ("4 NCCL logs", True)
    assert "4 ranks, RoCE with GPUDirect" in page.verdict


def test_a_finding_of_several_files_stands_once(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        text = "\n".join(job("NET/IB/0")).replace("oak", name)
        (tmp_path / f"{name}.log").write_text(text + "\n")
    found = analyze_files(load_run(tmp_path))
    assert found.findings["id"].tolist() == ["nccl-gpudirect-unused"]
    assert "2 more files show the same." in found.findings["evidence"].iloc[0]
    # Each job says it in its sentence; evidence and action stand once.
    assert all("Note: GPUDirect RDMA unused." in page.verdict for page in found.files)
    stream = StringIO()
    files_answer(found).write("terminal", stream)
    assert stream.getvalue().count("NCCL_DEBUG_SUBSYS") == 1


@pytest.mark.parametrize(
    ("text", "sentence", "gravity"),
    [
        (
            LOGGED.format("D", "Wrote 3 records."),
            "Nothing wrong found in 1 line of Horovod's log; hvdprof reads no rate in this file.",
            Gravity.CLEAN,
        ),
        (
            LOGGED.format("E", "Error writing to the Horovod Timeline after it was opened."),
            "Error in line 1: Error writing to the Horovod Timeline after it was opened.",
            Gravity.WARNING,
        ),
        (
            LOGGED.format("E", "Error opening the Horovod Timeline file /x/t.json, will not."),
            "Warning in line 1: Error opening the Horovod Timeline file /x/t.json, will not.",
            Gravity.WARNING,
        ),
    ],
    ids=["quiet", "error", "incident"],
)
def test_horovods_log_says_what_it_logged(
    tmp_path: Path, text: str, sentence: str, gravity: Gravity
) -> None:
    page = page_of(tmp_path, text)
    assert (page.verdict, page.gravity) == (sentence, gravity)


def test_an_autotuning_log_names_its_best_sample(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        "hierarchical_allreduce,hierarchical_allgather,cache_enabled,cycle_time_ms,"
        "tensor_fusion_threshold,score\n0,0,1,5,4,10.2\n0,0,1,2.5,8,12.5\n",
    )
    assert page.verdict == (
        "Best of 2 samples: cycle time 2.50 ms, fusion threshold 8.39 MB (12.5 MB/s reduced)."
    )
    assert page.caveat == "The log does not show that tuning finished."


def test_an_abort_comes_before_peer_access(tmp_path: Path) -> None:
    ended = init_line(0, 4, "COMPLETE").replace("Init COMPLETE", "Abort COMPLETE")
    setting = "NCCL_P2P_LEVEL set by environment to LOC"
    lines = [*job(extra=[setting]), of_rank(0, ended)]
    text = "\n".join(lines).replace("P2P/CUMEM/read", "SHM/direct/direct") + "\n"
    page = page_of(tmp_path, text)
    assert page.verdict == (
        "Communicators were aborted: the job failed, or its program ends that way. "
        "Warning: peer access between GPUs disabled; fix: unset NCCL_P2P_LEVEL."
    )
