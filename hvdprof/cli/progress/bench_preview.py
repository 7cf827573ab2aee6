"""What a measurement is about to do, shown before it starts."""

import shlex
from typing import IO

from hvdprof import api


def announce(measurement: "api.Measurement", stream: IO[str]) -> None:
    """Write the run directory, the skipped configurations with their reasons, and warnings."""
    folder = measurement.folder
    stream.write(f"hvdprof: measuring into {folder}\n")
    for reason, cells in measurement.skipped().items():
        stream.write(f"skipped: {', '.join(cells)}: {reason}\n")
    for warning in measurement.manifest.warnings:
        stream.write(f"! {warning}\n")
    if measurement.has_secret:
        stream.write(
            "! The command of the script seems to hold a secret. --resume needs the command, so "
            f"{measurement.manifest_path} keeps it. Pass secrets in the environment: no secret of "
            "the environment is written.\n"
        )


def print_launches(measurement: "api.Measurement", stream: IO[str]) -> None:
    """Write every command with the environment that is set for it, as shell text."""
    for launch in measurement.launches():
        stream.write(f"# {launch.id}: {', '.join(launch.segments)}\n")
        for variable, value in sorted(launch.environment.items()):
            stream.write(f"export {variable}={shlex.quote(value)}\n")
        stream.write(shlex.join(launch.command) + "\n\n")
    for reason, cells in measurement.skipped().items():
        stream.write(f"# skipped: {', '.join(cells)}: {reason}\n")
