import ast
import contextlib
import functools
import gc
import importlib.util
import itertools
import os
import re
import signal
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from tests.builders.browser import close_browser
from tests.builders.lean_start.warm_proxy import VARIABLE as WARM
from tests.builders.patient_ranks import patient_library
from tests.builders.places import LEAN_START

NOT_PURE = {
    "horovod",
    "browser",
    "install",
    "tensorflow",
    "frameworks",
    "torch",
    "gpu",
    "root",
    "timing",
    "slow",
    "waits",
}
"""Markers of what needs more than Python and the light environment, or more than its time."""

NOT_FAST = NOT_PURE | {"heavy"}
"""Those, and that of what only takes too long for the inner loop."""

PURE, FAST = (f"not ({' or '.join(sorted(markers))})" for markers in (NOT_PURE, NOT_FAST))
"""What ``--pure`` and ``--fast`` select, as ``-m`` would spell it."""

ATTEMPTS = {"slow": 2, "horovod": 2, "browser": 2, "root": 2, "timing": 3}
"""How often a test of commands, ranks, browsers, networks or times is tried before it fails.

Another process of the machine may take the cores for seconds in the middle of one: then a port, a
deadline or a bandwidth says nothing about hvdprof. What fails each time fails. The summary lists
each test that was tried again, and why: one that stands there often has a defect of its own.
"""

LONGEST_FIRST = (
    "test_browsing.py",
    "test_tune_end_to_end.py",
    "test_other_mpis.py",
    "test_run_function.py",
    "test_run_session.py",
    "test_compare_end_to_end.py",
    "test_several_hosts.py",
    "test_run_faults.py",
    "test_bench_slurm.py",
    "test_bench_end_to_end.py",
    "test_run_ddp.py",
    "test_analysis_only_install.py",
    "test_run_end_to_end.py",
    "test_train.py",
    "test_bench_two_hosts.py",
    "test_run_elastic.py",
    "test_run_tutorials.py",
    "test_strangers.py",
    "test_selftest_end_to_end.py",
    "test_watch_hosts.py",
)
"""Files that take long: a worker that starts one last leaves the others without work."""

PYTHONPATH = os.environ.get("PYTHONPATH", "")

# Before numpy is imported: else its linear algebra wakes a thread per core at each call. That takes
# four times the processor time of the small systems here, and the cores of the other workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# How long an example takes says nothing on a machine that others use too. A run of all tests judges
# the change, not the luck of the draw: HYPOTHESIS_PROFILE=random searches for new examples.
settings.register_profile("random", deadline=None)
settings.register_profile("reproducible", deadline=None, derandomize=True)
# While one works: `make test` draws all examples in the fast part, too.
settings.register_profile("few", deadline=None, derandomize=True, max_examples=10)


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands of the tests seal runs with a key of their own, and read and leave no analyses."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    os.environ["HVDPROF_ANALYSIS_CACHE"] = "0"


@pytest.fixture(scope="session", autouse=True)
def _signals_end() -> None:
    """Tests send Ctrl-C and hang-ups, which shells in the background and nohup let be ignored."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the examples, and let the collector of cycles look less often.

    It took a tenth of the time of the tests: each time it walks all that collecting the tests has
    made, and frames have few cycles.
    """
    usual = "few" if config.getoption("--fast") else "reproducible"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", usual))
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let ranks of Horovod start lean and sleep while they wait, but where a test measures time.

    And in tests marked ``warm`` let them be forked from a process that has imported torch: also in
    a test of time, if what it measures begins after the imports.
    """
    markers = {mark.name for mark in item.iter_markers()}
    patient, warm = "horovod" in markers and "timing" not in markers, "warm" in markers
    library = patient_library() if patient else ""
    _set_or_unset("LD_PRELOAD", library)
    paths = [str(LEAN_START), PYTHONPATH] if patient or warm else [PYTHONPATH]
    _set_or_unset("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    _set_or_unset(WARM, _warm_address(item.config, library) if warm else "")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Close the browser that tests share before one that needs none, and after the last."""
    if nextitem is None or nextitem.get_closest_marker("browser") is None:
        close_browser()


@functools.cache
def _warm_address(config: pytest.Config, library: str) -> str:
    """Of the server of this worker for ranks with a library, begun by the first test of them."""
    if importlib.util.find_spec("greenlet") is None:
        return ""
    from tests.builders.warm_ranks import warm_server

    stack = contextlib.ExitStack()
    config.add_cleanup(stack.close)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return stack.enter_context(warm_server(Path(folder), library))


def _set_or_unset(variable: str, value: str) -> None:
    if value:
        os.environ[variable] = value
    else:
        os.environ.pop(variable, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--fast`` is for ``make test-fast``, and ``--pure`` for the first part of ``make test``."""
    parser.addoption("--fast", action="store_true", help="omit tests marked as one of NOT_FAST")
    parser.addoption("--pure", action="store_true", help="omit tests marked as one of NOT_PURE")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Omit whole files of which ``--fast``, ``--pure`` or ``-m`` selects no test, unimported.

    An import takes time, and it needs what the markers of the file name. Files that are named on
    the command line are not asked for here.
    """
    if collection_path.suffix != ".py":
        return None
    selections = [FAST if config.getoption("--fast") else "", config.option.markexpr]
    selections += [PURE] if config.getoption("--pure") else []
    if not any(selections):
        return None
    source = collection_path.read_text(encoding="utf-8")
    return not all(may_select(text, source) for text in selections if text) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Omit single tests by their markers, or start with the files that take longest."""
    _check_markers_are_in_the_files(items)
    omits = NOT_FAST if config.getoption("--fast") else NOT_PURE
    if not (config.getoption("--fast") or config.getoption("--pure")):
        places = {name: place for place, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: places.get(item.path.name, len(places)))
        for item in items:
            attempts = max((ATTEMPTS.get(mark.name, 1) for mark in item.iter_markers()), default=1)
            if attempts > 1:
                item.add_marker(pytest.mark.flaky(reruns=attempts - 1, reruns_delay=5))
        return
    omitted = [item for item in items if {mark.name for mark in item.iter_markers()} & omits]
    config.hook.pytest_deselected(items=omitted)
    items[:] = [item for item in items if item not in set(omitted)]


def file_markers(source: str) -> set[str]:
    """The names of the markers that a test file gives to all its tests, without importing it."""
    if "\npytestmark = " not in source:
        return set()
    values = [
        statement.value
        for statement in ast.parse(source).body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"
    ]
    return {
        node.attr
        for value in values
        for node in ast.walk(value)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark"
    }


def written_markers(source: str) -> set[str]:
    """The markers of NOT_FAST that any test of a file may have: those that its text holds."""
    return set(re.findall(r"\bmark\.(\w+)", source)) & NOT_FAST


def may_select(expression: str, source: str) -> bool:
    """Whether an expression of ``-m`` may select a test of a file, by the file's text.

    Only what ``file_markers`` and ``written_markers`` decide counts: of everything else, and of an
    expression that pytest will refuse, the answer is yes.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return True
    return _truth(tree, file_markers(source), written_markers(source)) is not False


def _truth(node: ast.expr, certain: set[str], possible: set[str]) -> bool | None:
    """Whether a part of an expression holds for every test of a file, for none, or unknown."""
    match node:
        case ast.Name(id=name) if name in NOT_FAST and (name in certain or name not in possible):
            return name in certain
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            value = _truth(operand, certain, possible)
            return None if value is None else not value
        case ast.BoolOp(op=operator, values=operands):
            values = [_truth(operand, certain, possible) for operand in operands]
            decisive = isinstance(operator, ast.Or)
            if decisive in values:
                return decisive
            return None if None in values else not decisive
    return None


def _check_markers_are_in_the_files(items: list[pytest.Item]) -> None:
    """Refuse what would let ``may_select`` omit a test that is selected.

    Raises:
        pytest.UsageError: A test has a marker that the text of its file does not hold, or lacks one
            that its file gives to all tests.
    """
    for path, of_file in itertools.groupby(items, key=lambda item: item.path):
        source = path.read_text(encoding="utf-8")
        certain, possible = file_markers(source) & NOT_FAST, written_markers(source)
        for item in of_file:
            markers = {mark.name for mark in item.iter_markers()} & NOT_FAST
            if not certain <= markers <= possible:
                raise pytest.UsageError(
                    f"{item.nodeid} has the markers {sorted(markers)}. Its file gives "
                    f"{sorted(certain)} to every test, and holds {sorted(possible)}. Write the "
                    "markers of a test as `pytest.mark.NAME` in its own file."
                )


def last_line(report: pytest.TestReport) -> str:
    """The exception and the first line of its message with which an attempt failed."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what was skipped by reason: a list of places does not say what the machine lacks.

    And list what passed only when tried again, or not even then, with the first attempt's error.
    """
    tried = terminalreporter.stats.get("rerun", ())
    again = Counter(report.nodeid for report in tried)
    if again:
        errors = {report.nodeid: last_line(report) for report in reversed(tried)}
        terminalreporter.section(f"{len(again)} tried again")
        for test, number in again.items():
            terminalreporter.line(f"{number + 1:5} attempts: {test}: {errors[test]}")
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section(f"{reasons.total()} skipped")
        for reason, number in reasons.most_common():
            terminalreporter.line(f"{number:5} {reason}")
