from collections import Counter

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that others use too.
settings.register_profile("shared_machine", deadline=None)
settings.load_profile("shared_machine")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what was skipped by reason: a list of places does not say what the machine lacks."""
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section(f"{reasons.total()} skipped")
        for reason, number in reasons.most_common():
            terminalreporter.line(f"{number:5} {reason}")
