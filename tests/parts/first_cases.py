"""A plugin of pytest that measures coverage in the first cases of each parametrised test alone.

Later cases run hardly a line that the first ones do not, and each call and line that is traced
takes time. So the coverage of ``make test`` is a lower bound. Which cases are traced does not
depend on the worker that runs them.
"""

from collections import Counter
from collections.abc import Generator, Iterable

import pytest
from coverage import Coverage

TRACED = 2
"""How many cases of a test."""


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Tracing())


class _Tracing:
    def __init__(self) -> None:
        self._untraced: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Choose among all that is selected, on each worker the same."""
        self._untraced = set(later_cases(item.nodeid for item in session.items))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Stop the tracer for a later case, with all that it sets up."""
        coverage = Coverage.current()
        if coverage is None or item.nodeid not in self._untraced:
            return (yield)
        coverage.stop()
        try:
            return (yield)
        finally:
            coverage.start()


def later_cases(tests: Iterable[str]) -> Iterable[str]:
    """The ids of cases of which TRACED of the same function come before."""
    seen: Counter[str] = Counter()
    for test in tests:
        function, _, _ = test.partition("[")
        seen[function] += 1
        if seen[function] > TRACED:
            yield test
