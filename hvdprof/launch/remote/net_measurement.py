"""Measures the network between hosts: starts the probe on each by the job's own launcher."""

import datetime as dt
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hvdprof.collect.net_probe import MARK
from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.launchers.launch_job import Job, Launcher
from hvdprof.launch.launchers.slurm_allocation import find_allocation
from hvdprof.launch.plan.bench_settings import Machine
from hvdprof.launch.plan.environment import inherited_environment, names_to_pass_on
from hvdprof.launch.plan.hosts import parse_hosts
from hvdprof.launch.plan.options import PLACING_THEMSELVES, SRUN
from hvdprof.launch.plan.settings import Resolved
from hvdprof.launch.plan.workload import INSTALLED_ALONE, python_program
from hvdprof.launch.processes.interruption import interruptible
from hvdprof.launch.processes.launch_process import Watch, run_to_end
from hvdprof.launch.remote.remote_shell import hosts_with_ranks
from hvdprof.machine.mpi import Mpi
from hvdprof.rundir.attached import NetRecording
from hvdprof.rundir.json_codec import parse_json

LEAST_SIZE, MOST_SIZE = 4, 2**30
SILENT_S = 120.0
"""The probe prints a line for every size; after as long without one it counts as hung."""

_MOST_LINES = 6


@dataclass(frozen=True, slots=True)
class NetEffort:
    """Bytes of the messages, and seconds for each pair and size."""

    sizes: tuple[int, ...]
    seconds: float


THOROUGH = NetEffort(tuple(4**power for power in range(5, 13)), 0.5)
BRIEF = NetEffort((1024, 16_384, 131_072, 524_288, 2_097_152, 4_194_304), 0.15)
"""Before a sweep: a few seconds, and sizes enough for a fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetProbe:
    """A measurement that can be started: how its ranks are launched, and with what."""

    settings: Resolved
    launcher: Launcher
    mpi: Mpi | None
    effort: NetEffort
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def host_names(self) -> list[str]:
        """The hosts that are measured.

        Raises:
            UsageError: There are fewer than two.
        """
        names = list(hosts_with_ranks(self.settings))
        if len(names) < 2:
            raise UsageError(
                "A network is measured between two hosts or more.", hint="hvdprof net --hosts h1,h2"
            )
        return names

    def job(self) -> Job:
        """The job: one rank on every host; pure.

        Raises:
            UsageError: There are fewer than two hosts.
        """
        names = self.host_names()
        variables = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"} | INSTALLED_ALONE
        if len(names) > 2:
            variables["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
        if self.mpi is not None:
            variables |= self.mpi.environment(dict(self.environment))
        return Job(
            size=len(names),
            program=python_program(
                "hvdprof.collect.net_probe",
                *("--sizes", ",".join(map(str, self.effort.sizes))),
                *("--seconds", f"{self.effort.seconds:g}"),
                *("--np", str(len(names))),
                *("--device", self.settings.device),
            ),
            hosts=",".join(f"{name}:1" for name in names),
            environment=variables,
            passed_on=names_to_pass_on(self.environment),
            device=self.settings.device,
        )

    def measure(self) -> NetRecording:
        """Start the ranks and wait for what they measure.

        Raises:
            EnvironmentNotReadyError: The measurement failed; the last lines of the ranks say why.
            InterruptedRunError: Ctrl-C or SIGTERM.
        """
        job = self.job()
        with tempfile.TemporaryDirectory(prefix="hvdprof-net-") as folder, interruptible():
            printed, errors = Path(folder) / "stdout", Path(folder) / "stderr"
            outcome = run_to_end(
                self.launcher.command(job),
                {**inherited_environment(self.environment), **job.environment},
                stdout=printed,
                stderr=errors,
                watch=Watch(progress=lambda: printed.stat().st_size, timeout_s=SILENT_S),
            )
            text = printed.read_text(encoding="utf-8", errors="replace")
            error_text = errors.read_text(encoding="utf-8", errors="replace")
        recording = recording_of(text, self.settings)
        if recording is None:
            how = "hung" if outcome.hung else f"ended with exit code {outcome.exit_code}"
            lines = [line for line in (error_text or text).splitlines() if line.strip()][
                -_MOST_LINES:
            ]
            last_lines = "".join(f"\n  {line.strip()}" for line in lines)
            raise EnvironmentNotReadyError(f"The measurement of the network {how}.{last_lines}")
        return recording


def net_settings(hosts: str | None, machine: Machine, launcher: str) -> Resolved:
    """The settings of a run that measures the network alone.

    Args:
        hosts: As for ``parse_hosts``; None for the nodes of a Slurm allocation.
        machine: Controller and device.
        launcher: The name of the launcher.

    Raises:
        UsageError: The hosts cannot be used, or the launcher takes none.
        EnvironmentNotReadyError: There is no allocation.
    """
    if launcher in PLACING_THEMSELVES:
        raise UsageError(
            f"The nodes of a job of {launcher} are measured by their names.",
            hint="hvdprof net --hosts n1:1,n2:1   (over ssh)",
        )
    placed = parse_hosts(hosts) if hosts else ()
    if not placed and launcher == SRUN:
        placed = find_allocation().hosts
    return Resolved(
        sizes=(sum(host.slots for host in placed) or 1,),
        models=(),
        compressions=(),
        reductions=(),
        num_warmup_batches=0,
        max_seconds=None,
        repeats=0,
        controller=machine.controller,
        launcher=launcher,
        device=machine.device,
        hosts=",".join(f"{host.name}:{host.slots}" for host in placed) or None,
        num_threads=1,
        data="none",
    )


def sizes_of(text: str) -> tuple[int, ...]:
    """The sizes of ``1k,64k,1M``: bytes, or with k, M, G as powers of 1024; ascending.

    Raises:
        UsageError: A part is not a size, or out of bounds.
    """
    sizes = set()
    for part in text.split(","):
        word = part.strip()
        power = {"k": 1, "m": 2, "g": 3}.get(word[-1:].lower(), 0)
        digits = word[:-1] if power else word
        size = int(digits) * 1024**power if digits.isdecimal() else 0
        if not LEAST_SIZE <= size <= MOST_SIZE:
            raise UsageError(
                f"--sizes {text}: {word!r} is not a size of a message (4 bytes to 1G).",
                hint="--sizes 1k,16k,256k,1M,4M",
            )
        sizes.add(size)
    return tuple(sorted(sizes))


def recording_of(printed: str, settings: Resolved) -> NetRecording | None:
    """The recording that rank 0 printed; None where it is not complete.

    Launchers put tags in front of lines, so a record is what follows the mark.
    """
    records = [record for line in printed.splitlines() if (record := _record(line))]
    if not records or records[0].get("what") != "hosts" or records[-1].get("what") != "end":
        return None
    return NetRecording(
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        controller=settings.controller,
        device=settings.device,
        hosts=list(records[0]["hosts"]),
        records=records[1:-1],
    )


def _record(line: str) -> dict[str, Any] | None:
    _, mark, text = line.partition(MARK)
    if not mark:
        return None
    try:
        record = parse_json(text)
    except ValueError:
        # Torn by another rank's output: the sizes around it still count.
        return None
    return record if isinstance(record, dict) else None
