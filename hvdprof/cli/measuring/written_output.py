"""Options ``--output`` and ``--force``, and the result that goes to a file or standard output."""

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO

import typer

from hvdprof.errors import UsageError

Render = Callable[[IO[str]], object]
"""Writes a finished result to a text stream."""

OF_MEASUREMENT = (
    "The folder of what is measured; with a name that ends in {}, the file for the result instead "
    "of standard output."
)

NAMED_OUTPUT = "File to write instead of standard output; its name chooses the format."


def output_option(help_: str = NAMED_OUTPUT, *, panel: str | None = None) -> object:
    """What typer reads as the option ``--output`` of a command that prints its result otherwise."""
    return typer.Option("--output", "-o", help=help_, show_default=False, rich_help_panel=panel)


def force_option(help_: str = "Replace an existing file.", *, panel: str | None = None) -> object:
    """What typer reads as the option ``--force`` of a command with ``--output``."""
    return typer.Option("--force", help=help_, rich_help_panel=panel)


def folder_or_file(
    output: Path | None, suffixes: Collection[str], folder: str | Path | None
) -> tuple[str | Path | None, Path | None]:
    """The folder and the file of a result that ``--output`` names where something is measured.

    It is a folder, as for all that measures, unless its name ends as that of a format does.

    Args:
        output: As given.
        suffixes: The ends of file names.
        folder: What ``--runs`` names; None where it is not given.

    Raises:
        UsageError: Both name a folder.
    """
    if output is None or output.name.removesuffix(".gz").endswith(tuple(suffixes)):
        return folder, output
    if folder is not None:
        raise UsageError(
            f"-o {output} and --runs {folder} both name the folder.", hint="Omit one of them."
        )
    return output, None


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
