"""The command line's entry: the list of commands, and errors turned into message and exit code.

Tested in ``tests/cli/test_analyze.py``.
"""

import io
import sys
from collections.abc import Callable
from typing import NoReturn

import typer

from hvdprof import __version__
from hvdprof.cli.analyze import analyze
from hvdprof.cli.attach import attach
from hvdprof.cli.bench import bench
from hvdprof.cli.convert import convert
from hvdprof.cli.dashboard import dashboard
from hvdprof.cli.doctor import doctor
from hvdprof.cli.export import export
from hvdprof.cli.inject import inject
from hvdprof.cli.install_horovod import install_horovod
from hvdprof.cli.net import net
from hvdprof.cli.report import report
from hvdprof.cli.run import run
from hvdprof.cli.scaling import scaling
from hvdprof.cli.sql import sql
from hvdprof.errors import HvdprofError

# In the order of a user's work, for --help.
COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("doctor", doctor),
    ("install-horovod", install_horovod),
    ("bench", bench),
    ("run", run),
    ("net", net),
    ("attach", attach),
    ("analyze", analyze),
    ("scaling", scaling),
    ("convert", convert),
    ("sql", sql),
    ("report", report),
    ("dashboard", dashboard),
    ("export", export),
    ("inject", inject),
)


def build_app() -> typer.Typer:
    """The typer application with every command of ``COMMANDS``."""
    app = typer.Typer(
        name="hvdprof",
        help="Timeline profiler and scaling-efficiency analyzer for Horovod.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for name, command in COMMANDS:
        app.command(name)(command)
    return app


def main() -> NoReturn:
    """Run the command line; every HvdprofError ends as one message on stderr."""
    for stream in (sys.stdout, sys.stderr):
        # In a locale without UTF-8 a character is escaped, and the result is still printed.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        build_app()()
    except HvdprofError as error:
        sys.stderr.write(f"hvdprof: {error.message}\n")
        if error.hint:
            sys.stderr.write(f"  {error.hint}\n")
        sys.exit(error.exit_code)
    sys.exit(0)


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
