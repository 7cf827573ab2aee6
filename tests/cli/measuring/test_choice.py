import pytest

from hvdprof.cli.measuring.choice import parse_format
from hvdprof.errors import UsageError
from hvdprof.report.format_names import ANALYSES, Format
from tests.cli.test_convert import invoke


def test_a_known_format_is_parsed() -> None:
    assert parse_format(ANALYSES)("json") is Format.JSON


@pytest.mark.parametrize(
    ("command", "known"),
    [
        (("analyze", "anything"), "terminal, json, csv, markdown, junit, github, json-schema"),
        (("report", "anything"), "html, markdown"),
        (("scaling", "anything"), "terminal, json"),
        (("net", "anything"), "terminal, json"),
        (("sql", "anything", "SELECT 1"), "table, csv, json"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_unknown_format_is_refused_with_the_known_ones(
    command: tuple[str, ...], known: str
) -> None:
    with pytest.raises(UsageError, match=r"^--format xml: not known\.$") as caught:
        invoke(*command, "--format", "xml")
    assert caught.value.hint == f"Known: {known}"
