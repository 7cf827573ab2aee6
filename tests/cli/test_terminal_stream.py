import io
import re

import pytest

from hvdprof.cli.terminal_stream import TerminalStream


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n\tb é\n", "a\n\tb é\n"),
        ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        ("\x1b[2J\x1b]0;owned\x07", r"\x1b[2J\x1b]0;owned\x07"),
        ("\x1b[8mhidden\x1b[0;08m", r"\x1b[8mhidden\x1b[0;08m"),
        ("\x1b[38;5;8;1mgrey", "\x1b[38;5;8;1mgrey"),
        ('{"a": "\x9b2J\u202e"}', r'{"a": "\x9b2J\u202e"}'),
        ("up\x1b[1A\rover", r"up\x1b[1A\x0dover"),
    ],
)
def test_lines_and_colours_pass_and_nothing_else(text: str, shown: str) -> None:
    terminal = io.StringIO()
    stream = TerminalStream(terminal)
    assert stream.write(text) == len(text)
    print("", end="", file=stream, flush=True)
    assert terminal.getvalue() == shown
    assert re.match(r"\w", stream.encoding or "none") and not stream.isatty()
