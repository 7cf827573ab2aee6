"""`hvdprof dashboard`: runs in the browser."""

import ipaddress
import sys
import threading
import webbrowser
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.api.run_entries import runs_below
from hvdprof.cli.measuring.choice import price_option
from hvdprof.cli.measuring.chosen_run import RUNS, run_line
from hvdprof.errors import MissingExtraError, UnreadableInputError

_OWN_PACKAGES = ("hvdprof",)


def dashboard(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN|FOLDER|FILE",
            help="Run directories, folders of them, or standalone files such as a timeline.json; "
            "./runs when not given.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 0,
    password: Annotated[
        str | None,
        typer.Option(
            envvar="HVDPROF_DASHBOARD_PASSWORD",
            help="The browser asks for it, with any user name, in place of the token. The variable "
            "keeps it out of the list of processes.",
            show_default=False,
        ),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Without a token: every user who reaches it sees it.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name that browsers may use for this machine, such as that of a proxy; several "
            "times for several. Addresses, localhost and the machine's own name are known.",
            show_default=False,
        ),
    ] = None,
    price: Annotated[float | None, price_option()] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
) -> None:
    """Show runs in the browser: verdict, scaling curve, where the time goes.

    The pages load nothing from the network. The server listens on this machine alone unless
    --host names another address. The printed address carries a token: who has it sees the runs.
    """
    paths, watched = _split(runs or [RUNS])
    sys.stderr.writelines(_notes(folder for folder in watched if folder not in paths))
    if not runs and (here := api.list_runs(RUNS)):
        sys.stderr.write(f"hvdprof: the newest run in ./{RUNS} is {run_line(here[0])}\n")
    # Imports and the first reading take seconds, in which the terminal would show nothing.
    shown = ", ".join(map(str, dict.fromkeys((*paths, *watched))))
    sys.stderr.write(f"hvdprof: reading {shown} ...\n")
    try:
        from hvdprof.dashboards.access import Access
        from hvdprof.dashboards.app import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _OWN_PACKAGES:
            raise
        raise MissingExtraError("The dashboard", extra="dashboard") from error

    def announce(address: str) -> None:
        sys.stdout.write(f"hvdprof dashboard at {address} (Ctrl-C to stop)\n")
        sys.stdout.flush()
        if not no_open:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    if not _is_loopback(host):
        sys.stderr.write(_exposed(host, is_open=no_token and not password))
    serve(
        paths,
        watched=watched,
        address=(host, port),
        on_ready=announce,
        price=price,
        access=Access(
            password=password or None,
            with_token=not no_token,
            hosts=[*(allow_host or ()), *([] if _is_loopback(host) else [host])],
        ),
    )


def _split(given: list[Path]) -> tuple[list[Path], list[Path]]:
    """Runs, files and folders of them, and folders whose runs are listed as they appear."""
    paths, watched = [], []
    for path in given:
        is_one = api.is_run_directory(path) or path.is_file()
        if is_one or _holds_recordings(path):
            paths.append(path)
        elif not path.is_dir():
            is_there = path.exists()
            raise UnreadableInputError(
                f"{path} is neither a folder nor a regular file."
                if is_there
                else f"There is no folder or file {path}.",
                hint="hvdprof dashboard runs/<time>-<name>",
            )
        if not is_one:
            watched.append(path)
    return paths, watched


def _holds_recordings(folder: Path) -> bool:
    """Whether files lie in a folder and no run directory: dumps or logs of the ranks of a job."""
    if not folder.is_dir() or runs_below(folder).folders:
        return False
    return any(path.is_file() and not path.name.startswith(".") for path in folder.iterdir())


def _notes(folders: Iterable[Path]) -> Iterator[str]:
    """A line for each folder that holds no run yet."""
    for folder in folders:
        if not runs_below(folder).folders:
            yield (
                f"{folder} holds no run directory yet: its runs are shown as they appear. "
                "`hvdprof bench` makes one.\n"
            )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _exposed(host: str, *, is_open: bool) -> str:
    if is_open:
        return (
            f"Listening on {host} without a token: every user who reaches this port can read the "
            "runs. Omit --no-token, or set --password or HVDPROF_DASHBOARD_PASSWORD.\n"
        )
    return (
        f"Listening on {host}: what is asked for and the runs cross the network unencrypted; "
        "a forwarded port (ssh -L) encrypts them.\n"
    )
