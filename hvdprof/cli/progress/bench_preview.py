"""What ``hvdprof bench`` is about to do, told before it does it."""

import shlex
from pathlib import Path
from typing import IO

from hvdprof.launch.run.sweep import Sweep
from hvdprof.model.cell_key import setting_name
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.masking import mask_command


def announce(manifest: Manifest, folder: Path, stream: IO[str]) -> None:
    """Say where the run is written, which cells are skipped and why, and what to expect."""
    stream.write(f"hvdprof: measuring into {folder}\n")
    for reason, cells in _skipped_by_reason(manifest).items():
        stream.write(f"skipped: {', '.join(cells)}: {reason}\n")
    for warning in manifest.warnings:
        stream.write(f"! {warning}\n")
    if _has_secret(manifest):
        stream.write(
            "! the command of the script holds what looks like a secret, and --resume needs the "
            f"command: it stands in {RunPaths(folder).manifest}. Pass secrets in the environment, "
            "of which none are written.\n"
        )


def _has_secret(manifest: Manifest) -> bool:
    script = manifest.settings.get("script") or {}
    command = list(script.get("command", ()))
    return mask_command(command) != command


def _skipped_by_reason(manifest: Manifest) -> dict[str, list[str]]:
    by_reason: dict[str, list[str]] = {}
    for cell in manifest.skipped:
        setting = setting_name(cell.engine, cell.compression, cell.reduction)
        what = f"{cell.model} np={cell.size} {setting}"
        by_reason.setdefault(cell.reason, []).append(what)
    return by_reason


def print_commands(sweep: Sweep, stream: IO[str]) -> None:
    """Every command of a sweep with the environment set for it, as shell text."""
    for record in sweep.manifest.passes:
        job = sweep.job(record)
        segments = ", ".join(segment.segment.id for segment in record.segments)
        stream.write(f"# {record.id}: {segments}\n")
        for variable, value in sorted(job.environment.items()):
            stream.write(f"export {variable}={shlex.quote(value)}\n")
        stream.write(shlex.join(sweep.launcher.command(job)) + "\n\n")
    for reason, cells in _skipped_by_reason(sweep.manifest).items():
        stream.write(f"# skipped: {', '.join(cells)}: {reason}\n")
