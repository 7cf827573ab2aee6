"""A launch about to start, for what runs launches."""

from pathlib import Path

from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.processes.launch_process import Launch, Watch
from hvdprof.rundir.layout import PassPaths


def launch_into(
    folder: Path,
    *,
    size: int = 2,
    environment: dict[str, str] | None = None,
    watch: Watch | None = None,
) -> Launch:
    """A launch of a function named ``train`` whose pass lies in a folder that is made."""
    folder.mkdir(parents=True, exist_ok=True)
    job = Job(
        size=size,
        program=("horovod.run", "train"),
        hosts=None,
        environment=environment or {},
        passed_on=(),
        device="cpu",
    )
    return Launch(
        job=job,
        command=[],
        environment={},
        paths=PassPaths(folder),
        watch=watch or Watch(progress=lambda: 0, timeout_s=60.0),
    )
