"""Each declared table is filled once, and shown or knowingly not: STEPS, readers, SECTIONS."""

from pathlib import Path
from typing import ClassVar

import pandas as pd
import pytest

from hvdprof.analyze import pipeline
from hvdprof.analyze.pipeline import RULES, STEPS, analyze_run
from hvdprof.analyze.run_basis import Basis, Step
from hvdprof.api import load_run
from hvdprof.model.run import Run
from hvdprof.model.schema import Column, Table
from hvdprof.model.table_catalogue import TABLES, RecordedTables
from hvdprof.model.tables.log_tables import NOTES, THROUGHPUT_SCALING
from hvdprof.model.tables.nccl_call_tables import NCCL_JOINED_CALLS
from hvdprof.report.sections.run_sections import SECTIONS
from tests.builders.analysis import with_a_straggler
from tests.builders.recorded_runs import unpacked
from tests.builders.run_directory import write_run

OF_FILES = {THROUGHPUT_SCALING.name, NCCL_JOINED_CALLS.name}
"""The tables that only the analysis of standalone files fills."""

TABLES_WITHOUT_SECTION = {
    "scaling": "the cells, at the head of a report",
    "launches": "the cells are made of them",
    "job_steps": "the launches are made of them",
    "losses": "a figure",
    "waterfall": "bars in one line, and a figure",
    "pop": "numbers for experts: JSON, CSV and SQL",
    "ceilings": "numbers for experts: JSON, CSV and SQL",
    "toggles": "the page Compare",
    "replays": "numbers for experts: JSON, CSV and SQL",
    "clocks": "the section of caused wait uses them",
    "collective_arrivals": "a figure",
    "stragglers": "the section of caused wait uses them",
    "lateness": "a figure",
    "rank_costs": "the page Breakdown, and the phases of each rank",
    "tensors": "names in JSON, CSV and SQL",
    "step_communication": "sums in JSON, CSV and SQL",
    "breakdown": "a figure",
    "overlap": "a figure",
    "collectives": "a figure",
    "link_fit": "the page Communication",
    "matched_collectives": "the section of bus bandwidths is made of them",
    "line_causes": "the section of lines uses them",
    "net_hosts": "the page Communication",
    "net_use": "a sentence in the section of the network",
    "resets": "in the section of sessions",
    "findings": "a list of its own",
}
FILLED = [table.name for step in STEPS for table in step.fills]


def of_readers() -> set[str]:
    attributes = {name for name in vars(RecordedTables) if not name.startswith("_")}
    return attributes - set(FILLED) | {NOTES.name}


def test_each_table_is_filled_by_one_step_or_by_readers() -> None:
    assert len(FILLED) == len(set(FILLED))
    filled = sorted([*FILLED, *of_readers(), *OF_FILES])
    assert filled == sorted(table.name for table in TABLES)


def test_each_table_of_a_step_has_a_section_or_a_reason_for_none() -> None:
    shown = [section.table.name for section in SECTIONS]
    assert set(shown) & TABLES_WITHOUT_SECTION.keys() == set()
    assert sorted([*shown, *TABLES_WITHOUT_SECTION]) == sorted(FILLED)


def test_a_step_needs_only_what_readers_or_earlier_steps_fill() -> None:
    known = of_readers()
    for step in STEPS:
        assert {table.name for table in step.needs} <= known, step.question
        known |= {table.name for table in step.fills}


def test_each_rule_stands_at_one_step() -> None:
    assert len(RULES) == len(set(RULES)) >= 29


class AskedRun(Run):
    """A run that remembers which of its tables were asked for."""

    asked: ClassVar[set[str]] = set()

    def table(self, name: str) -> pd.DataFrame:
        self.asked.add(name)
        return super().table(name)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["", "horovod-by-hand-slow-between"])
def test_a_step_asks_for_no_table_beyond_those_it_declares(tmp_path: Path, name: str) -> None:
    folder = unpacked(name, tmp_path) if name else write_run(tmp_path, with_a_straggler())
    run = load_run(folder)
    spy = AskedRun(**{field: getattr(run, field) for field in Run.__dataclass_fields__})
    tables = analyze_run(run).tables
    asked_at_all = set()
    for step in STEPS[:-1]:
        needed = {table.name for table in step.needs}
        AskedRun.asked = set()
        # A table that it does not declare is missing where it asks.
        basis = Basis(spy, {name: tables[name] for name in needed & tables.keys() & set(FILLED)})
        made = step.frames(basis)
        assert set(made) <= {table.name for table in step.fills}
        assert AskedRun.asked <= needed, step.question
        asked_at_all |= AskedRun.asked
    assert {"steps", "segments", "arrivals"} <= asked_at_all


@pytest.mark.heavy
def test_a_new_step_with_its_rule_is_one_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table("dummy", "A dummy.", (Column("number", "int64", "A number."),))
    asked = []

    def rule(evidence: Basis) -> list[object]:
        asked.append(evidence.table("dummy")["number"].tolist())
        return []

    step = Step(
        "how many launches are there",
        (table,),
        (STEPS[0].fills[1],),
        lambda basis: table.frame([{"number": len(basis.table("launches"))}]),
        (rule,),
    )
    monkeypatch.setattr(pipeline, "STEPS", (*STEPS[:-1], step, STEPS[-1]))
    monkeypatch.setattr(pipeline, "RULES", (*RULES, rule))
    analysis = analyze_run(load_run(write_run(tmp_path, with_a_straggler())))
    assert analysis.derived["dummy"]["number"].tolist() == [len(analysis.launches)] == asked[0]
