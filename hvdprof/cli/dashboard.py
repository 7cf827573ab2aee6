"""`hvdprof dashboard`: runs in the browser."""

import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.errors import MissingExtraError, UnreadableInputError
from hvdprof.rundir.layout import RunPaths

_OWN_PACKAGES = ("hvdprof", "dashboards")


def dashboard(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN|FOLDER",
            help="Run directories, or folders of them; ./runs when not given.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="Address to listen on; whoever reaches it can read the runs."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
) -> None:
    """Look at runs in the browser: verdict, scaling curve, where the time goes.

    Loads nothing from the network and listens on this machine alone unless told otherwise.
    """
    folders = [folder for path in runs or [Path("runs")] for folder in _run_folders(path)]
    try:
        from dashboards.app import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _OWN_PACKAGES:
            raise
        raise MissingExtraError("The dashboard", extra="dashboard") from error

    def announce(address: str) -> None:
        sys.stdout.write(f"hvdprof dashboard at {address} (Ctrl-C ends it)\n")
        sys.stdout.flush()
        if not no_open:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    serve(folders, host=host, port=port, on_ready=announce)


def _run_folders(path: Path) -> list[Path]:
    if RunPaths(path).manifest.is_file():
        return [path]
    if not path.is_dir():
        raise UnreadableInputError(
            f"There is no folder {path}.", hint="hvdprof dashboard runs/<time>-<name>"
        )
    folders = [entry.folder for entry in api.list_runs(path)]
    if not folders:
        raise UnreadableInputError(
            f"{path} holds no run directory.",
            hint="`hvdprof bench` makes one; give its folder, or the folder that holds it.",
        )
    return folders
