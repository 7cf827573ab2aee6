"""The answers of every format, joined with the formats and with the tables of their readers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hvdprof.analyze.files.source_answers import ANSWERS, ANSWERS_OF
from hvdprof.ingest.logs.printed_file import PARTS
from hvdprof.ingest.logs.printed_rates import PrintedRates
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
DUMMY = Table("dummies", "One dummy.", (_FILE, _LINE, Column("value", "float64", "s", "It.")))
LOG_TABLES: tuple[Table, ...] = (
    DUMMY,
"""
SOURCE = """\
DUMMY = Source(
    ("dummy log",), "logs of dummies", "dummy.log", AttachedKind.OUTPUT,
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
