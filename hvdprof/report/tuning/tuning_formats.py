"""The formats of a tuning, and the ends of file names that choose one.

Tested in ``tests/report/tuning/test_tuning_formats.py``.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import IO

from hvdprof.model.tuning import TUNING_SCHEMA_VERSION, Tuning
from hvdprof.report.format_names import TuningFormat
from hvdprof.report.json_values import JsonObject, json_value, write_json
from hvdprof.report.tuning.tuning_markdown import render_tuning_markdown
from hvdprof.report.tuning.tuning_terminal import render_tuning


def render_tuning_json(tuning: Tuning, stream: IO[str]) -> None:
    """Write one indented object and a newline; docs/howto/tune.md lists its keys."""
    content: JsonObject = {"schema_version": TUNING_SCHEMA_VERSION}
    content |= {name: json_value(value) for name, value in asdict(tuning).items()}
    write_json(content, stream)


RENDERERS: dict[TuningFormat, Callable[[Tuning, IO[str]], None]] = {
    TuningFormat.TERMINAL: render_tuning,
    TuningFormat.JSON: render_tuning_json,
    TuningFormat.MARKDOWN: render_tuning_markdown,
}
"""What writes a tuning to a text stream."""

SUFFIXES: dict[str, TuningFormat] = {
    ".json": TuningFormat.JSON,
    ".md": TuningFormat.MARKDOWN,
    ".txt": TuningFormat.TERMINAL,
}
"""The ends of file names that choose a format."""
