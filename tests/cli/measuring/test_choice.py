import pytest

from hvdprof.cli.analyze import ReportFormat
from hvdprof.cli.measuring.choice import parse_format
from hvdprof.errors import UsageError
from tests.cli.test_convert import invoke


def test_a_known_format_is_parsed() -> None:
    assert parse_format(ReportFormat)("json") is ReportFormat.JSON


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"^--format xml: not known\.$") as caught:
        invoke("analyze", "anything", "--format", "xml")
    assert caught.value.hint == "Known: terminal, json, csv"
