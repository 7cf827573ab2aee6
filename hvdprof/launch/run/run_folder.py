"""Names and makes run directories; none is overwritten."""

import datetime as dt
import re
from pathlib import Path

from hvdprof.errors import StorageError
from hvdprof.launch.plan.preflight import require_space
from hvdprof.rundir.layout import RUNS_FOLDER, RunPaths
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.run_lock import exclusive_run
from hvdprof.rundir.written_file import make_place

_OF_OWNER, _OF_GROUP = 0o700, 0o750


def runs_folder(output: Path | None) -> Path:
    """Where runs lie beside the one that gets this run directory."""
    return RUNS_FOLDER if output is None else output.parent


def make_run_folder(
    manifest: Manifest, output: Path | None, name: str, *, share: bool = False
) -> Path:
    """Make the run directory, lock it until it is measured, and write the manifest into it.

    Other users cannot look into it: output and commands may hold secrets.

    Args:
        manifest: The manifest of the prepared run; gets its name.
        output: The run directory itself; None for ``runs/<time>-<name>``.
        name: A name for the run.
        share: Whether the group of the user may read it.

    Raises:
        StorageError: The folder exists with something in it, cannot be made, or another user could
            exchange it.
        UsageError: Another process measures into it.
    """
    manifest.name = name
    if output and ".." in output.parts:
        # A script can remove the working directory, from which this leads out.
        output = output.resolve()
    try:
        make_place(output or RUNS_FOLDER / "run")
        require_space(output or RUNS_FOLDER)
        folder = _make_named(output) if output else _make_new(name)
        with exclusive_run(folder, keep=True) as manifest.writer:
            # Another start may have written into it meanwhile.
            _refuse_filled(folder)
            if share:
                folder.chmod(_OF_GROUP)
            manifest.write(RunPaths(folder))
    except OSError as error:
        where = error.filename or output or RUNS_FOLDER
        raise StorageError(f"Could not make {where}: {error.strerror}.") from error
    return folder


def _make_named(folder: Path) -> Path:
    if folder.exists():
        _refuse_filled(folder)
    # One that exists keeps the mode that the user gave it.
    folder.mkdir(_OF_OWNER, parents=True, exist_ok=True)
    return folder


def _refuse_filled(folder: Path) -> None:
    if any(folder.iterdir()):
        raise StorageError(
            f"{folder} is not empty, and runs are not overwritten.",
            hint=f"Name a new folder, or resume that run with --resume {folder}.",
        )


def _make_new(name: str) -> Path:
    while True:
        folder = new_run_folder(None, name)
        try:
            folder.mkdir(_OF_OWNER)
        except FileExistsError:
            # Another run that started in the same second has this name.
            continue
        return folder


def new_run_folder(output: Path | None, name: str) -> Path:
    """The run directory that a new run gets: ``output``, else ``runs/<time>-<name>``."""
    stamp = dt.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return output or _unused(RUNS_FOLDER / f"{stamp}-{_as_file_name(name)}")


def _as_file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"


def _unused(folder: Path) -> Path:
    candidates = (folder.with_name(f"{folder.name}-{number}") for number in range(2, 1000))
    return folder if not folder.exists() else next(c for c in candidates if not c.exists())
