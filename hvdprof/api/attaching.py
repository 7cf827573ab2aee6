"""Make a run directory of files that other tools wrote.

Apart from the other runs, since it needs the readers of all kinds of files.

Tested in ``tests/ingest/rundir/test_attached_run.py``.
"""

from pathlib import Path

from hvdprof.ingest import load
from hvdprof.rundir.manifest import Manifest

AttachedFiles = load.Given
AttachedJob = load.Stated


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
