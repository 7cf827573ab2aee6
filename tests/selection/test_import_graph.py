"""The graph of this repository: its own modules are the example."""

from importlib.util import find_spec

import pytest

from tests.builders.places import ROOT
from tests.selection.import_graph import Graph, module_of, needed_modules, users
from tests.selection.selected_tests import read_sources

needs_grimp = pytest.mark.skipif(find_spec("grimp") is None, reason="no grimp (make setup)")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return needed_modules(ROOT, read_sources(ROOT))


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("hvdprof/units.py", "hvdprof.units"),
        ("hvdprof/api/__init__.py", "hvdprof.api"),
        ("dashboards/app.py", "hvdprof.dashboards.app"),
        ("bench_models/__init__.py", "hvdprof.bench_models"),
        ("tests/test_units.py", "tests.test_units"),
    ],
)
def test_a_file_is_imported_under_a_name(path: str, module: str) -> None:
    assert module_of(path) == module


def test_users_are_direct_and_indirect() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"b"}, "e": set()}
    assert users(graph, ["c"]) == {"a", "b", "c", "d"}
    assert users(graph, ["e"]) == {"e"}


@needs_grimp
@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "needed"),
    [
        # Inside a function, in a folder of tests.
        ("tests.builders.running_command", "hvdprof.__main__"),
        # By a name in a string.
        ("tests.builders.running_command", "tests.builders.warm_modules"),
        ("hvdprof.bench_models.registry", "hvdprof.bench_models.resnet"),
        ("hvdprof.cli.main", "hvdprof.cli.tune"),
        # As a command, and as a script.
        ("tests.test_tune_end_to_end", "hvdprof.__main__"),
        ("tests.builders.network_hosts", "hvdprof.__main__"),
        ("tests.test_run_tensorflow", "tests.builders.keras_script"),
        ("tests.test_run_ddp", "tests.builders.ddp_script"),
        ("tests.builders.recorded_runs", "tests.builders.fsdp_script"),
        # What runs before it, and by a folder in the path.
        ("hvdprof.model.tables.waiting_tables", "hvdprof.model"),
        ("hvdprof.collect.auto.startup", "hvdprof.collect.auto.startup.sitecustomize"),
        # Imported when its name is used.
        ("hvdprof.cli.measure", "hvdprof.api.machine"),
        ("hvdprof.cli.analyze", "hvdprof.api.runs"),
    ],
)
def test_a_module_needs(graph: Graph, module: str, needed: str) -> None:
    assert needed in graph[module]


@needs_grimp
@pytest.mark.slow
def test_a_lazy_package_gives_the_modules_of_the_names_that_are_used(graph: Graph) -> None:
    assert "hvdprof.api.tuning.measured_tuning" not in graph["hvdprof.cli.measure"]
    assert not {name for name in graph["hvdprof.api"] if name.startswith("hvdprof.api.")}


@needs_grimp
@pytest.mark.slow
def test_the_command_needs_all_of_hvdprof_but_what_scripts_and_notebooks_call(graph: Graph) -> None:
    seen = {"hvdprof.__main__"}
    open_ends = list(seen)
    while open_ends:
        found = graph[open_ends.pop()] - seen
        seen |= found
        open_ends += found
    beside = {name for name in graph if name.startswith("hvdprof")} - seen
    assert {name for name in beside if not name.startswith("hvdprof.launch.functions")} == {
        "hvdprof.api.functions",
        "hvdprof.collect.auto.recorded_function",
        "hvdprof.cli.measuring.notebook_cell",
        "hvdprof.live.callbacks",
        "hvdprof.live.figure_feed",
    }
