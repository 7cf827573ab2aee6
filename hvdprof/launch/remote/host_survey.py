"""What the hosts of a job have, asked of all before its first pass.

Reachable, hvdprof and Horovod there, the same versions, the run directory seen. Where ranks need no
Horovod, PyTorch alone is asked.
"""

import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hvdprof import units
from hvdprof.errors import EnvironmentNotReadyError, StorageError
from hvdprof.launch.plan.hosts import is_this_host
from hvdprof.launch.plan.options import TORCHRUN
from hvdprof.launch.plan.preflight import GLOO
from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.plan.workload import python_program
from hvdprof.launch.remote.host_probe import OF_TORCH, HostProbe, parse_probe
from hvdprof.launch.remote.remote_shell import HostShell, hosts_with_ranks
from hvdprof.rundir.recording.sample_format import HostFacts

SURVEY_TIMEOUT_S = 180.0
COMPARED = {
    "hvdprof": "hvdprof",
    "horovod": "Horovod",
    "torch": "torch",
    "tensorflow": "TensorFlow",
    "nccl": "NCCL",
    "mpi": "MPI",
    "python": "Python",
}
"""What must be the same on all hosts: keys of the versions in a manifest, with their titles."""

_OF_HOROVOD = frozenset({"horovod", "mpi"})
_MAX_AT_ONCE = 64
_MAX_NAMED = 8
_NOT_REACHED = 255
_NOT_THERE = (126, 127)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a host, and how to fix it."""

    sentence: str
    hint: str


def survey_hosts(
    names: Sequence[str],
    shell: HostShell,
    *,
    folder: Path,
    controller: str,
    needs_horovod: bool = True,
    timeout_s: float = SURVEY_TIMEOUT_S,
) -> dict[str, HostProbe]:
    """The probes of hosts by name, all asked at once.

    Args:
        names: The hosts.
        shell: How they are reached.
        folder: The run directory; whether a host sees it is found out by a file made in it.
        controller: ``mpi`` or ``gloo``.
        needs_horovod: Whether ranks use Horovod; else PyTorch alone must be there.
        timeout_s: How long a host may take to answer.

    Raises:
        EnvironmentNotReadyError: A host cannot be reached, lacks hvdprof, Horovod or PyTorch, or
            versions differ; every such host is named.
        StorageError: The run directory cannot be written to.
    """
    with _token(folder) as token, ThreadPoolExecutor(_MAX_AT_ONCE) as pool:
        asked_for = (str(token), *(() if needs_horovod else (OF_TORCH,)))
        program = python_program("hvdprof.launch.remote.host_probe", *asked_for)
        answers = list(pool.map(lambda name: _ask(name, shell, program, timeout_s), names))
    asked = dict(zip(names, answers, strict=True))
    problems = [answer for answer in answers if isinstance(answer, Problem)]
    probes = {name: answer for name, answer in asked.items() if isinstance(answer, HostProbe)}
    problems += list(problems_of(probes, controller, needs_horovod=needs_horovod))
    if problems:
        raise EnvironmentNotReadyError("\n  ".join(_sentences(problems)), hint=problems[0].hint)
    return probes


def problems_of(
    probes: Mapping[str, HostProbe], controller: str, *, needs_horovod: bool = True
) -> Iterator[Problem]:
    """What keeps hosts that answered from running one job together."""
    for name, probe in probes.items():
        if probe.problem:
            install = "hvdprof install-horovod" if needs_horovod else "pip install torch"
            yield Problem(f"{name}: {probe.problem}.", f"{install}   (on that host)")
        elif controller == GLOO and not probe.hostname_resolves:
            yield Problem(
                f"{name} cannot look up its own host name; Gloo cannot start then.",
                'echo "127.0.0.1 $(hostname)" | sudo tee -a /etc/hosts   (on that host)',
            )
    usable = {name: probe for name, probe in probes.items() if not probe.problem}
    for key, title in COMPARED.items():
        if (key == "mpi" and controller == GLOO) or (key in _OF_HOROVOD and not needs_horovod):
            continue
        hosts_of: dict[str, list[str]] = {}
        for name, probe in usable.items():
            hosts_of.setdefault(probe.versions.get(key, "none"), []).append(name)
        if len(hosts_of) > 1:
            listed = "; ".join(f"{version} on {_listed(on)}" for version, on in hosts_of.items())
            yield Problem(
                f"{title} is not the same on all hosts: {listed}.",
                "Make them the same: ranks of different versions hang or crash.",
            )


def host_records(probes: Mapping[str, HostProbe]) -> list[dict[str, Any]]:
    """The hosts as a manifest holds them: facts, versions, and whether they share the folder."""
    return [
        {**probe.host, "versions": probe.versions, "shares_folder": probe.shares_folder}
        for probe in probes.values()
    ]


def _ask(
    name: str, shell: HostShell, program: Sequence[str], timeout_s: float
) -> HostProbe | Problem:
    command = shell.command(name, program, as_horovod=True)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return Problem(
            f"{name} did not answer within {units.seconds(timeout_s)}.", f"ssh {name} true"
        )
    except OSError as error:
        return Problem(f"{name}: {command[0]} cannot be started: {error.strerror}.", "")
    probe = parse_probe(done.stdout) if done.returncode == 0 else None
    return probe or _why_not(name, done.returncode, done.stderr)


def _why_not(name: str, exit_code: int, printed: str) -> Problem:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    last = lines[-1] if lines else f"exit code {exit_code}, and no message"
    if "No module named" in last and "hvdprof" in last:
        return Problem(
            f"{name} has no hvdprof in {sys.executable}, or an older one.",
            f"Install the same hvdprof there: {sys.executable} -m pip install 'hvdprof[bench]'",
        )
    if exit_code in _NOT_THERE:
        return Problem(
            f"{name} has no {sys.executable}: {last}.",
            "Ranks run in this Python: install it at the same path on every host.",
        )
    if exit_code == _NOT_REACHED:
        return Problem(
            f"{name} cannot be reached: {last}.", f"ssh {name} true   must work without a password."
        )
    return Problem(f"The probe of {name} failed: {last}.", f"ssh {name} {sys.executable} -V")


@contextmanager
def _token(folder: Path) -> Iterator[Path]:
    """A file in a folder by which other hosts recognise it; gone afterwards."""
    token = folder.absolute() / f".shared-{uuid.uuid4().hex}"
    try:
        token.touch()
        try:
            yield token
        finally:
            token.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"Could not write {token}: {error.strerror}.") from error


def _sentences(problems: Sequence[Problem]) -> list[str]:
    sentences = [problem.sentence for problem in problems[:_MAX_NAMED]]
    more = len(problems) - _MAX_NAMED
    return [*sentences, f"And {units.count(more)} more."] if more > 0 else sentences


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MAX_NAMED])
    return f"{shown} and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else shown


def has_other_hosts(settings: Settings) -> bool:
    """Whether a rank of these settings runs on another host than this."""
    return not all(is_this_host(name) for name in hosts_with_ranks(settings))


@dataclass(frozen=True, slots=True)
class AskedHosts:
    """What hosts answered: ``records`` for the manifest, the host that asked first.

    ``facts`` are those of the hosts with ranks by the names that the settings have for them, and
    ``apart`` the ones that do not see the run directory.
    """

    records: list[dict[str, Any]]
    facts: dict[str, HostFacts]
    apart: tuple[str, ...]


def ask_hosts(
    settings: Settings, known: Sequence[dict[str, Any]], folder: Path, shell: HostShell
) -> AskedHosts:
    """Ask every host of a job what it has.

    Raises:
        EnvironmentNotReadyError: A host cannot run its part; all such hosts are named. Or none of
            them sees the run directory, so that the progress of the ranks would be unknown; a
            function brings its recordings back itself.
        StorageError: The run directory cannot be written to.
    """
    names = list(hosts_with_ranks(settings))
    # The host that starts the ranks needs the same versions too.
    asker = [] if any(is_this_host(name) for name in names) else [socket.gethostname()]
    probes = survey_hosts(
        [*names, *asker],
        shell,
        folder=folder,
        controller=settings.controller,
        needs_horovod=settings.launcher != TORCHRUN,
    )
    apart = tuple(name for name in names if not probes[name].shares_folder)
    if len(apart) == len(names) and not settings.is_function:
        raise EnvironmentNotReadyError(
            f"None of {', '.join(names[:8])} sees {folder}, so their progress cannot be followed.",
            hint="Start hvdprof on one of them, or name a folder with --output that one shares.",
        )
    records = host_records(probes)
    surveyed = {host["hostname"] for host in records}
    others = [host for host in known if host["hostname"] not in surveyed]
    # The first host of a manifest is the one that started the run.
    records.sort(key=lambda host: host["hostname"] != socket.gethostname())
    facts = {name: probes[name].host for name in names}
    return AskedHosts([*records, *others], facts, apart)
