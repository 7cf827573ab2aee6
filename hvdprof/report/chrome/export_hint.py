"""What to do about a run that has nothing for a time axis: the file to export, or to read."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from hvdprof import units
from hvdprof.model.run import Run
from hvdprof.model.tables.inspector_tables import INSPECTOR_COLLECTIVES
from hvdprof.model.tables.nsys_tables import NSYS_GPUS
from hvdprof.model.tables.rank_collective_tables import RANK_COLLECTIVES
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_files
from hvdprof.rundir.layout import RunPaths


def export_hint(run: Run) -> str:
    """The command that exports attached recordings, or the file of the run that says more.

    Args:
        run: A run without recorded steps and without timeline.
    """
    attached = attached_files(run.manifest)
    if attached:
        place = _exportable(run, attached)
        if place is not None:
            command = shlex.join(["hvdprof", "export", str(place), "-o", "trace.json"])
            return f"Export the attached files: {command}"
        return _attached_alone(run, attached)
    passes = [RunPaths(run.folder).of_pass(one.id) for one in run.manifest.passes]
    outputs = [path for one in passes for path in (one.stderr, one.stdout) if _has_text(path)]
    return f"The reason is in {outputs[0]}." if outputs else ""


def _exportable(run: Run, attached: Sequence[AttachedFile]) -> Path | None:
    """The recording, or the folder of recordings, that `hvdprof export` can draw."""
    copies = [run.folder / one.copy for one in attached if one.kind == AttachedKind.RECORDING]
    exports = set(run.table(NSYS_GPUS.name)["file"].astype(str))
    for path in copies:
        # Files are called by the last part of their folder there.
        if f"{path.parent.name}/{path.name}" in exports:
            return path
    # Inspector has times of kernels only where it was asked for them.
    is_timed = run.table(INSPECTOR_COLLECTIVES.name)["start_ns"].notna().any()
    if run.table(RANK_COLLECTIVES.name).empty and not is_timed:
        return None
    return copies[0] if len(copies) == 1 else copies[0].parent


def _attached_alone(run: Run, attached: Sequence[AttachedFile]) -> str:
    first = run.folder / attached[0].copy
    number = units.counted(len(attached), "file")
    which = f"Only {first} is" if len(attached) == 1 else f"{number}, such as {first}, are"
    command = shlex.join(["hvdprof", "convert", str(run.folder), "-o", "tables"])
    return (
        f"{which} attached, without a place in time. Attach a timeline, traces of torch.profiler, "
        f"or dumps of PyTorch's Flight Recorder too, or read the tables: {command}"
    )


def _has_text(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0
