"""What ``python -m tests.selection`` prints."""

from collections import Counter

from tests.selection.__main__ import summary
from tests.selection.selected_tests import Selection


def test_the_summary_names_causes_and_reasons() -> None:
    selected = Selection(
        frozenset({"tests/test_a.py", "tests/test_b.py"}),
        frozenset({"tests/test_b.py"}),
        Counter({"need nothing": 3, "start ranks": 1}),
        Counter({f"hvdprof/{number}.py": number for number in range(1, 13)}),
    )
    lines = summary(selected).splitlines()
    assert lines[:2] == ["2 files of tests run, because of", "   12 hvdprof/12.py"]
    assert lines[-4:] == [
        "      and 2 more changed files, each of fewer tests",
        "Left out, in files of tests:",
        "    3 need nothing",
        "    1 start ranks",
    ]


def test_the_summary_names_the_files_for_which_everything_runs() -> None:
    selected = Selection(frozenset(), frozenset(), whole=("pyproject.toml",))
    assert summary(selected).splitlines() == [
        "Every test runs. These files cannot be placed, or every test needs them:",
        "  pyproject.toml",
    ]
