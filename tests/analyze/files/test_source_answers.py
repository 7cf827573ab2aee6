"""The answers of every format, joined with the formats and with the tables of their readers."""

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
