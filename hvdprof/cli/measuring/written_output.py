"""Options ``--output`` and ``--force``, and the result that goes to a file or standard output."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import typer

Render = Callable[[IO[str]], object]
"""Writes a finished result to a text stream."""

NAMED_OUTPUT = "File to write instead of standard output; its name chooses the format."


def output_option(help_: str = NAMED_OUTPUT, *, panel: str | None = None) -> object:
    """What typer reads as the option ``--output`` of a command that prints its result otherwise."""
    return typer.Option("--output", "-o", help=help_, show_default=False, rich_help_panel=panel)


def force_option(help_: str = "Replace an existing file.", *, panel: str | None = None) -> object:
    """What typer reads as the option ``--force`` of a command with ``--output``."""
    return typer.Option("--force", help=help_, rich_help_panel=panel)


def show_or_write(render: Render, output: Path | None, *, overwrite: bool) -> None:
    """Print a result, or write it to a file whole or not at all and say so on standard error.

    Raises:
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    if output is None:
        render(sys.stdout)
        return
    from hvdprof.report.formats import write_text

    write_text(output, render, overwrite=overwrite)
    sys.stderr.write(f"Wrote {output}\n")
