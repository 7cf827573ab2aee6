"""The command line's entry: the list of commands, and errors turned into message and exit code."""

import ast
import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import InspectLoader
from typing import NoReturn

import typer

from hvdprof import __version__
from hvdprof.cli.measuring.command_words import Command, Group, StartsCommand
from hvdprof.cli.terminal_stream import drop_output, open_streams
from hvdprof.errors import HvdprofError
from hvdprof.plain_text import printable_lines

_GROUPS = {
    "Measure: hvdprof run --np 1,2 -- python train.py": ("run", "bench", "watch", "tune", "inject"),
    "Read files: hvdprof analyze timeline.json train.log": ("analyze", "attach", "convert", "sql"),
    "Compare and predict: hvdprof compare": ("compare", "history", "scaling", "predict"),
    "Show and share: hvdprof report -o report.html": ("dashboard", "report", "export"),
    "Set up this machine: hvdprof doctor": ("doctor", "install-horovod", "net", "selftest"),
}
"""The titles in ``--help``, what one wants to do with an example, and their commands."""

COMMANDS = tuple(command for commands in _GROUPS.values() for command in commands)
"""Each is a function in the module of its name in ``hvdprof.cli``, or in that of ``_MODULES``."""

_MODULES = {"bench": "measure", "run": "measure", "net": "measure", "inject": "selftest"}

_STARTING = ("run", "tune", "inject", "compare")

_OBJECTS_PER_COLLECTION = 100_000


def build_app(commands: Sequence[str] = COMMANDS, *, is_list: bool = False) -> typer.Typer:
    """The typer application with some commands; those of the others are not imported.

    Where it is only a list of them, none is: their texts are read.
    """
    app = typer.Typer(
        name="hvdprof",
        cls=Group,
        help="Timeline profiler and scaling-efficiency analyzer for Horovod.\n\n"
        "`hvdprof help COMMAND` shows the options of a command.",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    titles = {command: title for title, group in _GROUPS.items() for command in group}
    for command in commands:
        name = command.replace("-", "_")
        module = f"hvdprof.cli.{_MODULES.get(name, name)}"
        function = (
            _listed(module, name) if is_list else getattr(importlib.import_module(module), name)
        )
        kind = StartsCommand if command in _STARTING else Command
        app.command(command, cls=kind, rich_help_panel=titles[command])(function)
    return app


def _listed(module: str, name: str) -> Callable[[], None]:
    """A function with the docstring of another one, whose module is not imported."""
    found = importlib.util.find_spec(module)
    loader = found and found.loader
    source = loader.get_source(module) if isinstance(loader, InspectLoader) else None
    texts = {
        node.name: ast.get_docstring(node)
        for node in ast.parse(source or "").body
        if isinstance(node, ast.FunctionDef)
    }

    def listed() -> None:
        raise NotImplementedError(name)

    listed.__doc__ = texts[name]
    return listed


def main() -> NoReturn:
    """Run the command line; every HvdprofError ends as one message on stderr."""
    # Imports leave no garbage: looking for it often takes a tenth of a short command.
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    open_streams()
    code: str | int | None = 0
    try:
        try:
            arguments = _with_help(sys.argv[1:])
            words = _completed_words() or arguments
            is_list = not set(COMMANDS).intersection(words)
            app = build_app(_needed_commands(words), is_list=is_list)
            # The shell's variable for completion is named after it.
            app(arguments, prog_name="hvdprof")
        except SystemExit as ended:
            if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):
                # typer ends it without a message.
                raise KeyboardInterrupt from ended
            code = ended.code
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough, as `| head` does.
        drop_output()
        code = 1
    except HvdprofError as error:
        # Messages quote files and output of strangers.
        sys.stderr.write(f"hvdprof: {printable_lines(error.message)}\n")
        if error.hint:
            sys.stderr.write(f"  {printable_lines(error.hint)}\n")
        code = error.exit_code
        try:
            sys.stdout.flush()
        except (HvdprofError, OSError):
            # It has been said, or is less than what has been said.
            drop_output()
    sys.exit(code)


def _with_help(arguments: list[str]) -> list[str]:
    """``help COMMAND`` as ``COMMAND --help``; other arguments as they are."""
    return [*arguments[1:2], "--help"] if arguments[:1] == ["help"] else arguments


def _completed_words() -> list[str]:
    """The words so far of the command line that a shell completes; empty where none does."""
    if "_HVDPROF_COMPLETE" not in os.environ:
        return []
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:]


def _needed_commands(arguments: Sequence[str]) -> Sequence[str]:
    """The commands to import: help and messages about unknown commands list all of them."""
    wanted = arguments[:1]
    if wanted == ["--version"]:
        return ()
    return wanted if wanted and wanted[0] in COMMANDS else COMMANDS


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"hvdprof {__version__}\n")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False,
        "--version",
        help="Print the version and exit.",
        callback=_print_version,
        is_eager=True,
    ),
) -> None:
    """Timeline profiler and scaling-efficiency analyzer for Horovod."""
