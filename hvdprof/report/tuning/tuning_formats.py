"""The formats of a tuning, and how one is chosen.

Tested in ``tests/report/tuning/test_tuning_formats.py``.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO

from hvdprof.errors import UsageError
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


def tuning_format(output: Path) -> TuningFormat:
    """The format that the end of a file name chooses.

    Raises:
        UsageError: No format has such files.
    """
    for suffix, chosen in SUFFIXES.items():
        if output.name.removesuffix(".gz").endswith(suffix):
            return chosen
    raise UsageError(
        f"No format of a tuning has files such as {output.name}.",
        hint=f"File names that end in {', '.join(SUFFIXES)}; or give --format.",
    )
