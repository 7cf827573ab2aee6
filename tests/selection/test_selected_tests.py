from collections import Counter

import pytest

from tests.selection.import_graph import Graph, module_of
from tests.selection.selected_tests import (
    NOT_NEEDED,
    NOT_RECORDING,
    Selection,
    placed,
    recording_modules,
    selection,
    starts_ranks,
)

REAL = "import pytest\n\npytestmark = pytest.mark.horovod\n"
MIXED = "import pytest\n\n@pytest.mark.horovod\ndef test_ranks(): ...\n"
SOURCES = {
    "hvdprof/launch/start.py": "",
    "hvdprof/analyze/sums.py": "",
    "hvdprof/api/measurement.py": "",
    "hvdprof/cli/measure.py": "",
    "hvdprof/cli/sql.py": "",
    "hvdprof/report/page.py": "",
    "tests/builders/places.py": 'RECORDINGS = ROOT / "recordings"',
    "tests/builders/script.py": "",
    "tests/analyze/test_sums.py": "",
    "tests/docs/test_pages.py": "for path in DOCS.rglob('*.md'): ...",
    "tests/ingest/test_files.py": 'PATH = RECORDINGS / "nemo" / "bars_np16.txt"',
    "tests/ingest/test_all_files.py": "ALL = RECORDINGS.glob('*')",
    "tests/test_mirror.py": 'ROOT.rglob("*.py")',
    "tests/test_run.py": REAL,
    "tests/test_doctor.py": MIXED,
}
GRAPH: Graph = {module_of(path): set() for path in SOURCES} | {
    "hvdprof.api.measurement": {"hvdprof.launch.start"},
    "hvdprof.cli.measure": {"hvdprof.api.measurement"},
    "hvdprof.cli.sql": {"hvdprof.report.page"},
    "tests.analyze.test_sums": {"hvdprof.analyze.sums"},
    "tests.test_run": {"hvdprof.cli.measure", "hvdprof.cli.sql", "tests.builders.script"},
    "tests.test_doctor": {"hvdprof.cli.measure", "hvdprof.cli.sql"},
}
ALWAYS = {"tests/docs/test_pages.py", "tests/test_mirror.py"}
"""Tests that read the whole tree."""


def select(*changed: str) -> Selection:
    return selection(changed, SOURCES, GRAPH)


def test_a_module_selects_the_tests_that_import_it() -> None:
    selected = select("hvdprof/analyze/sums.py")
    assert selected.tests == ALWAYS | {"tests/analyze/test_sums.py"}
    assert selected.real == set()
    assert selected.causes == Counter({"hvdprof/analyze/sums.py": 1})
    assert selected.left_out == Counter({NOT_NEEDED: 4})


def test_real_ranks_run_where_what_records_and_launches_changed() -> None:
    for path in ("hvdprof/launch/start.py", "hvdprof/api/measurement.py", "hvdprof/cli/measure.py"):
        selected = select(path)
        assert selected.real == {"tests/test_run.py", "tests/test_doctor.py"}
        assert selected.tests == ALWAYS | {"tests/test_doctor.py"}


def test_real_ranks_are_left_out_where_only_a_page_changed() -> None:
    selected = select("hvdprof/report/page.py")
    assert selected.tests == ALWAYS | {"tests/test_doctor.py"}
    assert selected.real == set()
    assert selected.left_out[NOT_RECORDING] == 2


def test_a_page_and_a_script_together_run_the_ranks_of_the_script_only() -> None:
    selected = select("hvdprof/report/page.py", "tests/builders/script.py")
    assert selected.real == {"tests/test_run.py"}
    assert selected.left_out[NOT_RECORDING] == 1


def test_a_test_that_changed_runs_with_its_ranks() -> None:
    assert select("tests/test_doctor.py").real == {"tests/test_doctor.py"}


def test_nothing_runs_without_a_change() -> None:
    assert select() == Selection(frozenset(), frozenset(), Counter({NOT_NEEDED: 7}))


@pytest.mark.parametrize("path", ["pyproject.toml", "tests/conftest.py", "unknown.bin", "LICENSE"])
def test_everything_runs_for_what_cannot_be_placed(path: str) -> None:
    selected = select("hvdprof/analyze/sums.py", path)
    assert selected.whole == (path,)
    assert selected.tests == selected.real == {path for path in SOURCES if "/test_" in path}


def test_the_makefile_runs_all_real_ranks_and_its_readers() -> None:
    sources = {**SOURCES, "tests/test_parts.py": 'TEXT = (ROOT / "Makefile").read_text()'}
    selected = selection(["Makefile"], sources, {**GRAPH, "tests.test_parts": set()})
    assert selected.real == {"tests/test_run.py", "tests/test_doctor.py"}
    assert "tests/test_parts.py" in selected.tests
    assert "tests/analyze/test_sums.py" not in selected.tests


@pytest.mark.parametrize(
    ("path", "modules"),
    [
        ("docs/howto/run.md", {"tests.docs.test_pages"}),
        ("README.md", {"tests.docs.test_pages"}),
        ("hvdprof/report/templates/page.html.j2", {"hvdprof.report.page"}),
        # Those that hold its name, and those that hold the constant of its folder.
        (
            "tests/ingest/recordings/nemo/bars_np16.txt",
            {"tests.ingest.test_files", "tests.ingest.test_all_files"},
        ),
        ("tests/ingest/absent/a.txt", None),
    ],
)
def test_a_file_is_placed_at_its_readers(path: str, modules: set[str] | None) -> None:
    assert placed(path, SOURCES, GRAPH) == modules


@pytest.mark.parametrize(
    "text",
    [
        "from hvdprof.analyze.gone import total",
        "from hvdprof.analyze import gone",
        "from hvdprof.analyze import (\n    gone,\n    sums,\n)",
        "run('hvdprof.analyze.gone')",
    ],
)
def test_a_module_that_is_gone_selects_who_names_it(text: str) -> None:
    sources = {**SOURCES, "tests/analyze/test_sums.py": text, "tests/test_units.py": "gone = 1"}
    assert placed("hvdprof/analyze/gone.py", sources, GRAPH) == {"tests.analyze.test_sums"}


def test_the_commands_of_measuring_record_and_those_of_reading_do_not() -> None:
    assert recording_modules(GRAPH) == {
        "hvdprof.launch.start",
        "hvdprof.api.measurement",
        "hvdprof.cli.measure",
    }


@pytest.mark.parametrize(
    ("markers", "real"),
    [
        ({"horovod", "slow"}, True),
        ({"waits"}, True),
        ({"timing", "torch"}, True),
        ({"timing"}, False),
        ({"torch"}, False),
        ({"browser"}, False),
    ],
)
def test_markers_say_which_tests_start_ranks(markers: set[str], real: bool) -> None:
    assert starts_ranks(markers) is real
