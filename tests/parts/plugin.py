"""A plugin of pytest that writes down how a part of ``make test`` went, for ``tests.parts``.

The parts print one after the other for half an hour: an error of the first one has long left the
screen when the last one ends.
"""

import json
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

FILE = Path("build", "parts.jsonl")
"""Where, below the folder in which ``make`` runs."""

LAST_LINES = 15


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", required=True, help="the name of this part of `make test`")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Part(config.getoption("--part"), FILE.absolute()))


class _Part:
    """Each line is written at once: a part that is killed has named what failed until then."""

    def __init__(self, name: str, file: Path) -> None:
        self._name = name
        self._file = file
        self._begin = time.monotonic()
        self._counts: Counter[str] = Counter()
        file.parent.mkdir(parents=True, exist_ok=True)
        self._write(kind="begin")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test, and write down its error if that was its last attempt."""
        outcome = str(report.outcome)
        if outcome == "rerun":
            self._counts["tried again"] += 1
        elif outcome == "failed":
            self._failed(report.nodeid, "" if report.when == "call" else report.when, report)
        elif outcome == "skipped":
            self._counts["xfailed" if hasattr(report, "wasxfail") else "skipped"] += 1
        elif report.when == "call":
            self._counts["passed"] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Write down the error of a file that cannot be imported."""
        if report.failed:
            self._failed(report.nodeid, "collect", report)

    def _failed(
        self, test: str, phase: str | None, report: pytest.TestReport | pytest.CollectReport
    ) -> None:
        self._counts["failed"] += 1
        error = report.longreprtext.rstrip().splitlines()[-LAST_LINES:]
        self._write(kind="failed", test=test, phase=phase, error=error)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Write the counts, and the exit code that other plugins leave."""
        yield
        self._write(
            kind="end",
            exit_code=int(session.exitstatus),
            wall_s=time.monotonic() - self._begin,
            counts=self._counts,
        )

    def _write(self, **line: object) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": self._name, **line}) + "\n")
