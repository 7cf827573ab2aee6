import io

import pytest

from hvdprof.errors import UsageError
from hvdprof.report.terminal.table_section import MOST_ROWS, print_sections, section_table
from tests.builders import finished_analysis


def printed(width: int, *names: str) -> str:
    stream = io.StringIO()
    analysis = finished_analysis.analysis(finished_analysis.two_toggles())
    print_sections(analysis, names or ("scaling",), stream, width=width)
    return stream.getvalue()


def test_intervals_stand_behind_their_number_and_not_in_columns_of_their_own() -> None:
    text = printed(300)

    assert "efficiency_low" not in text and "efficiency low" not in text
    assert "84.2 % (81.9 to 86.5)" in text


def test_a_column_with_one_value_only_stands_above_the_table() -> None:
    above, _, table = printed(300).partition("─")

    assert "model resnet18" in above
    assert "resnet18" not in table


def test_a_table_wider_than_the_terminal_is_one_block_a_row() -> None:
    lines = printed(80).splitlines()

    assert max(map(len, lines)) <= 80
    assert any(line.split() == ["np", "2"] for line in lines)


def test_a_section_that_is_not_there_is_an_error_that_lists_the_others() -> None:
    analysis = finished_analysis.analysis(finished_analysis.two_toggles())

    with pytest.raises(UsageError) as raised:
        section_table(analysis, "caused_wait")

    assert "scaling" in (raised.value.hint or "")


def test_a_long_table_says_how_many_rows_are_left() -> None:
    cells = [finished_analysis.cell(np=number) for number in range(1, MOST_ROWS + 11)]
    stream = io.StringIO()

    print_sections(finished_analysis.analysis(cells), ["scaling"], stream, width=300)

    assert "10 rows more" in stream.getvalue()


def test_columns_without_a_value_are_named_and_left_out() -> None:
    cells = [finished_analysis.cell(np=number, final_loss=float("nan")) for number in (1, 2)]
    stream = io.StringIO()

    print_sections(finished_analysis.analysis(cells), ["scaling"], stream, width=300)

    above, _, table = stream.getvalue().partition("─")
    empty = next(line for line in above.splitlines() if "empty in all rows: " in line)
    assert "final loss" in empty
    assert "loss" not in table
    assert "samples" in above + table
