import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.plain_text import printable, printable_lines, shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 好 🙂", "plain é 好 🙂"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("over\rwritten\b", r"over\x0dwritten\x08"),
        ("abc\u202ecba", r"abc\u202ecba"),
        ("\udcff", r"\xff"),
    ],
)
def test_what_acts_on_a_terminal_is_shown_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable_lines(text) == shown


def test_lines_stay_lines() -> None:
    assert printable_lines("a\n\tb\r\n") == "a\n\tb\\x0d\n"
    assert printable("a\n\tb") == r"a\x0a\x09b"


@given(st.text())
def test_the_result_is_text_for_any_terminal(text: str) -> None:
    shown = printable_lines(text)
    shown.encode()
    assert printable_lines(shown) == shown
    assert not any(ord(one) < 32 and one not in "\n\t" for one in shown)


def test_a_name_is_shortened_in_the_middle() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghijk", 10) == "abcd…ghijk"
    assert shortened("abc", 1) == "…"
