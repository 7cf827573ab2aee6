import csv
import io

import pandas as pd
import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.dashboards.components import text_table as module
from hvdprof.dashboards.components.text_table import TextRows, section_cards, text_card
from hvdprof.dashboards.pages import communication, compare, diagnosis
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.model.tables.sample_tables import NET_LINKS
from hvdprof.model.tables.window_tables import SESSIONS
from hvdprof.report.sections.run_sections import Shown
from hvdprof.report.sections.section import Section
from tests.analyze.test_engines import both_engines
from tests.builders.elastic_run import SessionSpec, WorkerSpec, write_elastic_run
from tests.builders.finished_analysis import full_analysis
from tests.builders.profiler_traces import TracedJob, write_traces
from tests.builders.run_directory import write_run
from tests.builders.served_dashboard import shown_text
from tests.report.sections.test_run_sections import SECTION

LATE = TracedJob(size=3, late={(1, "backward"): 2000.0})


def write_sessions(folder):
    workers = [WorkerSpec("node1", slot, 100 + slot, slot) for slot in range(2)]
    first = SessionSpec(workers=workers[:1], num_steps=40, why="hosts-updated")
    return write_elastic_run(folder, [first, SessionSpec(workers=workers)])


def saved_of(card):
    """The rows that the button of a card writes."""
    (table,) = [one for one in card.children.children if hasattr(one, "data-rows")]
    return list(csv.reader(io.StringIO(getattr(table, "data-csv"))))


def test_what_is_saved_are_the_numbers_behind_the_texts():
    frame = pd.DataFrame({"cell": ["a, b"], "rate": [4308.25], "rate_low": [3410.0]})
    card = text_card("x", "X", TextRows(("cell", "rate"), [("a, b", "4,308 ± 898")], frame))
    assert saved_of(card) == [["cell", "rate", "rate_low"], ["a, b", "4308.25", "3410.0"]]
    assert "4,308 ± 898" in str(card)


def test_any_section_of_a_report_is_a_card(monkeypatch):
    alone = Section("Alone", sentences=("Only `this`.",))
    shown = (Shown(SESSIONS, lambda _: (SECTION, alone)), Shown(NET_LINKS, lambda _: (SECTION,)))
    monkeypatch.setattr(module, "SECTIONS", shown)
    assert section_cards(full_analysis()) == []
    card, without_rows = section_cards(full_analysis(), SESSIONS)
    text = str(card)
    for part in ("Title: of a|b", "caption", "step time", "host[1]", "A note.", "more"):
        assert part in text
    assert "a | b" in text
    assert "`" not in text
    # Names to the left, numbers to the right.
    head = card.children.children[1].children.children.children[0].children.children
    assert [cell.ta for cell in head] == ["right", "right", "left", "right"]
    assert saved_of(card)[0] == SESSIONS.column_names
    assert "Only " in str(without_rows)
    assert "data-csv" not in str(without_rows)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("page", "write", "expected"),
    [
        (diagnosis, write_sessions, ("Sessions: ", "Reset 1, 1 to 2 ranks")),
        (compare, lambda folder: write_run(folder, both_engines()), ("DDP against Horovod",)),
        (communication, lambda folder: write_traces(folder, LATE), ("Bus bandwidth", "busbw")),
    ],
)
def test_a_page_shows_the_sections_of_its_tables(tmp_path, page, write, expected):
    made = analyze_run(load_run(write(tmp_path / "run")))
    runs = RunStore([tmp_path / "run"], read=lambda _: made)
    text = shown_text(page.layout(runs, View(page.PATH, {"run": "run"})))
    for part in expected:
        assert part in text
