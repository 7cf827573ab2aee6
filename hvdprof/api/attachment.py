"""Make a run directory of files that exist already: attach.

Tested in ``tests/ingest/rundir/test_attached_run.py``.
"""

from pathlib import Path

from hvdprof.ingest import load
from hvdprof.ingest.load import Given as AttachedFiles
from hvdprof.ingest.load import Stated as AttachedJob
from hvdprof.rundir.manifest import Manifest

__all__ = ["AttachedFiles", "AttachedJob", "attach"]


def attach(
    folder: str | Path, files: AttachedFiles, job: AttachedJob, *, overwrite: bool = False
) -> Manifest:
    """Copy timelines, traces, logs, output and other recordings into a new run directory.

    Args:
        folder: The run directory to make.
        files: The files, by what they hold.
        job: Name, ranks and batch size of the job where the files do not show them.
        overwrite: Whether a run directory that was made of files may be replaced.

    Returns:
        The manifest; ``warnings`` names where the files contradict what the caller said.

    Raises:
        UsageError: No file was given, or the number of ranks is unknown.
        UnreadableInputError: A file does not hold what it is given for.
        StorageError: The folder exists already, or cannot be written.
    """
    return load.attach(Path(folder), files, job, overwrite=overwrite)
