"""A measurement as a job for Slurm's queue: the script, and its submission.

Tested in ``tests/cli/measuring/test_sbatch.py``.
"""

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScript:
    """What the job does and what it asks for.

    ``folder`` is the run directory that the job makes, ``working_folder`` where it was asked for;
    ``cpus_per_task`` are the processors of a rank.
    """

    command: Sequence[str]
    name: str
    num_ranks: int
    cpus_per_task: int
    folder: Path
    working_folder: Path

    @property
    def path(self) -> Path:
        """Where the script lies: beside the run directory, which the job itself makes."""
        return self.folder.with_name(f"{self.folder.name}.sbatch")

    def text(self) -> str:
        """The script. Partition, time and account are left to ``SBATCH_...`` variables."""
        # Slurm reads a single % as the start of a pattern.
        beside = str(self.folder.absolute()).replace("%", "%%")
        return "\n".join(
            [
                "#!/bin/bash",
                f"#SBATCH --job-name={shlex.quote(f'hvdprof-{self.name}')}",
                f"#SBATCH --ntasks={self.num_ranks}",
                f"#SBATCH --cpus-per-task={self.cpus_per_task}",
                f"#SBATCH --output={shlex.quote(f'{beside}.slurm-%j.out')}",
                f"cd {shlex.quote(str(self.working_folder))}",
                f"exec {shlex.join(self.command)}",
                "",
            ]
        )


def submit(script: Path) -> str:
    """Submit a script with ``sbatch``; its answer, empty where there is no ``sbatch``.

    Raises:
        EnvironmentNotReadyError: Slurm refuses the job.
    """
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        return ""
    try:
        done = subprocess.run([sbatch, str(script)], capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentNotReadyError(f"sbatch does not answer: {error}.") from error
    if done.returncode != 0:
        raise EnvironmentNotReadyError(
            f"Slurm does not take the job: {done.stderr.strip()}",
            hint=f"Fix {script} or set SBATCH_PARTITION and the like, then: sbatch {script}",
        )
    return done.stdout.strip() or "Submitted"
