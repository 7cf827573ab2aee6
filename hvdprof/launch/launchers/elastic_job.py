"""Elastic jobs: ``horovodrun`` with a script that names the hosts, asked every second."""

import ipaddress
import shutil
import subprocess
from dataclasses import dataclass

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.hosts import Host
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.rundir.regular_file import is_host_name

LOOPBACK = "lo"

_ASK_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class HorovodrunElastic:
    """Starts ranks by ``horovodrun`` with its elastic options; Gloo alone can do it.

    It passes its whole environment to every rank by itself. ``network`` is the interface of the
    ranks; Horovod looks for one where it is None.
    """

    horovodrun: str
    options: RunOptions
    network: str | None

    def command(self, job: Job) -> list[str]:
        """``horovodrun --gloo -np N --min-np N ... --host-discovery-script SCRIPT PROGRAM``.

        The job starts once its size is there.
        """
        options = self.options
        words = (
            ("-np", job.size),
            ("--min-np", options.least_np),
            ("--host-discovery-script", options.host_discovery_script),
            ("--max-np", options.max_np),
            ("--slots-per-host", options.slots),
            ("--network-interfaces", self.network),
            ("--elastic-timeout", options.elastic_timeout_s),
            ("--reset-limit", options.reset_limit),
        )
        given = [part for flag, value in words if value is not None for part in (flag, str(value))]
        return [self.horovodrun, "--gloo", *given, *job.program]


def prepare_elastic(options: RunOptions, sizes: tuple[int, ...]) -> tuple[str | None, list[str]]:
    """The network that the present hosts need, and the reasons for a later start.

    Args:
        options: Those of an elastic job.
        sizes: Numbers of ranks with which the job shall start; there must be one.

    Raises:
        UsageError: Options contradict each other, or the script prints something else than hosts.
        EnvironmentNotReadyError: The script cannot be run, or fails.
    """
    if len(sizes) != 1:
        raise UsageError(
            "An elastic job starts with one number of ranks.",
            hint="--np 2 --min-np 1 --max-np 4: it continues with as many as there are.",
        )
    script = options.host_discovery_script or ""
    _check(options, script, sizes[0])
    hosts = discover_hosts(script, options.slots)
    network = network_of(hosts, options.network_interface)
    return network, reasons_to_wait(hosts, network, sizes[0])


def discover_hosts(script: str, slots: int | None) -> tuple[Host, ...]:
    """The hosts that a discovery script names now, in its order.

    Args:
        script: A shell command, as ``horovodrun`` runs it.
        slots: Slots of a host that stands without any.

    Raises:
        EnvironmentNotReadyError: The script cannot be run, fails or does not end.
        UsageError: It prints something else than hosts.
    """
    hint = "It must print one host per line: server1:4"
    try:
        ended = subprocess.run(
            script,
            shell=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentNotReadyError(
            f"--host-discovery-script {script} did not end within {_ASK_TIMEOUT_S:.0f} s.",
            hint=hint,
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--host-discovery-script {script} prints no text.", hint=hint) from error
    if ended.returncode != 0:
        errors = " ".join(ended.stderr.split()[-40:]) or "it printed no error"
        raise EnvironmentNotReadyError(
            f"--host-discovery-script {script} ended with exit code {ended.returncode}: {errors}.",
            hint="Make it executable, and give its path: ./discover.sh",
        )
    lines = [line.strip() for line in ended.stdout.splitlines() if line.strip()]
    return tuple(_host(line, script, slots) for line in lines)


def network_of(hosts: tuple[Host, ...], wanted: str | None) -> str | None:
    """The interface that ranks shall use: the one asked for, else loopback, else Horovod's choice.

    Horovod looks for a network that two hosts have in common, and waits until there are two. Where
    all hosts have loopback names no other host can reach them, and there is just one.

    Raises:
        UsageError: Horovod would refuse the one asked for.
    """
    are_this_one = bool(hosts) and all(_is_loopback(host.name) for host in hosts)
    if wanted is None:
        return LOOPBACK if are_this_one else None
    if are_this_one and LOOPBACK not in wanted.split(","):
        raise UsageError(
            f"--network-interface {wanted}: horovodrun takes no other than {LOOPBACK} while all "
            "hosts are this machine.",
            hint="Omit it, or start with another host too.",
        )
    return wanted


def reasons_to_wait(hosts: tuple[Host, ...], network: str | None, size: int) -> list[str]:
    """What keeps the job from starting at once, one sentence each."""
    slots = sum(host.slots for host in hosts)
    reasons = []
    if slots < size:
        reasons.append(
            f"The discovery script names {slots} of {size} slots now: the job starts when there "
            "are enough."
        )
    if network is None and len(hosts) < 2:
        reasons.append(
            "horovodrun looks for a network that two hosts share, and starts no rank before the "
            "discovery script names two; --network-interface NAME lets one on another machine do."
        )
    return reasons


def _check(options: RunOptions, script: str, size: int) -> None:
    least, largest = options.least_np, options.max_np
    if largest is not None and largest < least:
        raise UsageError(f"--max-np {largest} is less than --min-np {least}.")
    if size < least or (largest is not None and size > largest):
        raise UsageError(
            f"--np {size}, with which the job starts, is not between --min-np and --max-np."
        )
    program = script.split()[:1]
    if not program or shutil.which(program[0]) is None:
        raise EnvironmentNotReadyError(
            f"--host-discovery-script {script}: not a program that can run.",
            hint="chmod +x ./discover.sh, and give its path: ./discover.sh",
        )


def _host(line: str, script: str, slots: int | None) -> Host:
    name, marker, number = line.partition(":")
    if is_host_name(name):
        if not marker and slots is not None:
            return Host(name, slots)
        if number.isdecimal():
            return Host(name, int(number))
    missing = "" if marker or not is_host_name(name) else "; without a number it needs --slots"
    raise UsageError(
        f"--host-discovery-script {script} printed {line!r}, which is not a host with its "
        f"slots{missing}.",
        hint="It must print one host per line: server1:4",
    )


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
