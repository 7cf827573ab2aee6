"""`hvdprof watch`: which rank is slow, while the job runs."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.api.run_entries import run_entry
from hvdprof.cli.measuring.choice import format_option
from hvdprof.cli.measuring.chosen_run import chosen_paths
from hvdprof.cli.measuring.option_signature import takes
from hvdprof.cli.measuring.watch_options import WatchOptions
from hvdprof.cli.progress.watch_screen import Screen, screen_of
from hvdprof.plain_text import printable
from hvdprof.report.format_names import Format


@takes(WatchOptions)
def watch(
    options: WatchOptions,
    place: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN|FOLDER]",
            help="A run directory, or the folder in HVDPROF_RECORDER_DIR; the newest run in ./runs "
            "when not given.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        Format,
        format_option(
            (Format.TERMINAL, Format.JSON),
            "A screen (a line per event where that is no terminal), or a JSON object per event.",
            show_default=True,
        ),
    ] = Format.TERMINAL,
) -> None:
    """Follow a running job: name a slow rank within half a minute, and say when it is over.

    Ctrl-C ends the watch, not the job. What was seen stays in the run.
    """
    folder = chosen_paths([place] if place else None, "hvdprof watch RUN")[0]
    as_json = format_ == Format.JSON
    waiting = f"Waiting for ranks to record in {printable(str(folder))}"
    if not api.is_run_directory(folder):
        waiting += "; start the job with HVDPROF_RECORDER_DIR set to it, or `hvdprof run --watch`"
    screens = screen_of(sys.stdout, sys.stderr, as_json=as_json, waiting=f"{waiting}.")
    stop, sinks, profiles = threading.Event(), options.sinks(folder), options.profile_on_event

    def follow(screen: Screen) -> None:
        for look in api.watch(folder, sinks=sinks, stop=stop, profile_on_event=profiles):
            screen.show(look)

    # Ctrl-C interrupts the main thread alone: what a look has written down is shown, too.
    with screens as screen, ThreadPoolExecutor(1) as pool:
        try:
            pool.submit(follow, screen).result()
        finally:
            stop.set()
    if api.is_run_directory(folder):
        status = run_entry(folder).status
        sys.stderr.write(f"hvdprof: The run is {status}: hvdprof analyze {quote(str(folder))}\n")
