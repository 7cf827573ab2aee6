"""Another host: how a command runs there, and files that ranks wrote fetched from there."""

import os
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError, HvdprofError, UsageError
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.launchers.slurm_allocation import find_allocation, find_srun
from hvdprof.launch.launchers.slurm_allocation import placement as srun_placement
from hvdprof.launch.plan.hosts import is_this_host, placement
from hvdprof.launch.plan.options import HOROVODRUN, SRUN, TORCHRUN
from hvdprof.launch.plan.preflight import GLOO
from hvdprof.launch.plan.settings import Resolved
from hvdprof.launch.plan.workload import python_program
from hvdprof.launch.remote.pass_files import unpack, written_folders
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.regular_file import is_host_name

CONNECT_TIMEOUT_S = 10

# Variables by which users and Kubernetes operators name the agent of Open MPI and of Hydra.
_AGENT_VARIABLES = (
    "OMPI_MCA_plm_rsh_agent",
    "OMPI_MCA_plm_ssh_agent",
    "PRTE_MCA_plm_ssh_agent",
    "HYDRA_LAUNCHER_EXEC",
)
# What horovod/runner/util/remote.py of 0.28.1 gives to ssh.
_HOROVOD_OPTIONS = ("-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no")
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")

FILES = "hvdprof.launch.remote.pass_files"
FETCH_TIMEOUT_S = 900.0
MODULE_TIMEOUT_S = 60.0
FETCH_AFTER_S = 5.0

_MAX_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class HostShell:
    """Starts a program on a host, in this folder and with this PATH and PYTHONPATH.

    ``agent`` are the words in front of the host's name. ``takes_words`` says that the program gets
    its arguments one by one (``srun``); otherwise a shell on the other side splits them (``ssh``).
    ``horovod_options`` are what Horovod itself gives to ssh when it starts ranks.
    """

    agent: tuple[str, ...]
    environment: Mapping[str, str]
    takes_words: bool = False
    horovod_options: tuple[str, ...] = ()

    def command(self, host: str, program: Sequence[str], *, as_horovod: bool = False) -> list[str]:
        """The argument list that runs a program there; this host needs no remote shell.

        Args:
            host: Its name.
            program: The program with its arguments.
            as_horovod: Take a host whose key is new or has changed, as Horovod does. Never where
                files come back.

        Raises:
            UsageError: The host has a name that the remote shell would take as something else.
        """
        if not is_host_name(host):
            raise UsageError(f"{host[:80]!a} is not the name of a host.")
        inherited = [f"{k}={self.environment[k]}" for k in _INHERITED if k in self.environment]
        inner = shlex.join(["env", *inherited, *program])
        text = f"cd {shlex.quote(str(Path.cwd()))} 2>/dev/null; exec {inner}"
        if is_this_host(host):
            return ["/bin/sh", "-c", text]
        if self.takes_words:
            return [*self.agent, f"--nodelist={host}", "/bin/sh", "-c", text]
        options = self.horovod_options if as_horovod else ()
        # Other agents, such as kubexec.sh of the MPI operator, know no end of options.
        end = ("--",) if Path(self.agent[0]).name == "ssh" else ()
        # The user may have any shell there: it gets one quoted word.
        return [*self.agent, *options, *end, host, f"exec /bin/sh -c {shlex.quote(text)}"]


def host_shell(settings: Resolved, environment: Mapping[str, str] = os.environ) -> HostShell:
    """The remote shell by which the launcher of these settings reaches other hosts.

    Raises:
        EnvironmentNotReadyError: There is no such program.
    """
    if settings.launcher == SRUN:
        options = ("--overlap", "--overcommit", "--mpi=none", "-N1", "-n1", "--export=ALL")
        return HostShell((find_srun(), *options), environment, takes_words=True)
    by_horovodrun = settings.controller == GLOO or settings.launcher == HOROVODRUN
    is_lax = by_horovodrun and settings.launcher != TORCHRUN
    return ssh_shell(environment, _HOROVOD_OPTIONS if is_lax else ())


def ssh_shell(environment: Mapping[str, str], horovod_options: tuple[str, ...] = ()) -> HostShell:
    """The remote shell that the environment names for launchers, else ssh.

    Args:
        environment: Of the launcher.
        horovod_options: What Horovod itself gives to ssh.

    Raises:
        EnvironmentNotReadyError: There is no such program.
    """
    given = next((environment[name] for name in _AGENT_VARIABLES if environment.get(name)), "ssh")
    agents = [words for words in map(shlex.split, given.split(":")) if words]
    found = [words for words in agents if shutil.which(words[0], path=environment.get("PATH"))]
    if not found:
        raise EnvironmentNotReadyError(
            f"There is no {given} in PATH, so other hosts cannot be reached.",
            hint="apt-get install openssh-client   (inside Slurm: --launcher srun)",
        )
    agent = found[0]
    if Path(agent[0]).name != "ssh":
        return HostShell(tuple(agent), environment)
    agent += ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_TIMEOUT_S}"]
    return HostShell(tuple(agent), environment, horovod_options=horovod_options)


def hosts_with_ranks(settings: Resolved, size: int | None = None) -> dict[str, int]:
    """The hosts of a launch by name with their ranks, in the order of ranks.

    The settings name them, else the Slurm allocation does; none for a run of this host alone.
    Without a size, the launch is the largest of the settings.
    """
    wanted = max(settings.sizes) if size is None else size
    if settings.hosts:
        return placement(settings, wanted)
    if settings.launcher != SRUN:
        return {}
    job = Job(
        size=wanted, program=(), hosts=None, environment={}, passed_on=(), device=settings.device
    )
    return srun_placement(job, find_allocation())


class WatchFetch:
    """Fetches the states that ranks without progress write, while no rank makes progress.

    Without them a stalled rank on such a host would look like one that never began.
    """

    def __init__(
        self,
        paths: PassPaths,
        names: Sequence[str],
        shell: HostShell,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paths = paths
        self._names = names
        self._shell = shell
        self._clock = clock
        self._seen: int | None = None
        self._since_s = self._fetched_s = clock()
        self._fetching: threading.Thread | None = None

    def look(self, progress: int) -> None:
        """Note how far the ranks are, and fetch where none makes progress."""
        now_s = self._clock()
        if progress != self._seen:
            self._seen, self._since_s = progress, now_s
            return
        is_busy = self._fetching is not None and self._fetching.is_alive()
        is_due = now_s - max(self._since_s, self._fetched_s) >= FETCH_AFTER_S
        if not self._names or is_busy or not is_due:
            return
        self._fetched_s = now_s
        self._fetching = threading.Thread(target=self.fetch, name="hvdprof fetch", daemon=True)
        self._fetching.start()

    def fetch(self) -> None:
        """Fetch once; the next look retries what did not come."""
        fetch(self._paths, self._names, self._shell, (self._paths.watch_folder,))


def fetch(
    paths: PassPaths, names: Sequence[str], shell: HostShell, folders: Sequence[Path] | None = None
) -> dict[str, str]:
    """Fetch what ranks on other hosts wrote of a pass, whole or not at all.

    Args:
        paths: The pass, absolute.
        names: The hosts.
        shell: How they are reached.
        folders: The folders of the pass that are wanted; all that ranks write when not given.

    Returns:
        The hosts whose files could not be fetched, with the reason.
    """
    wanted = written_folders(paths) if folders is None else folders

    def get(name: str) -> str:
        module = (FILES, "get", str(paths.folder), *(folder.name for folder in wanted))
        command = shell.command(name, python_program(*module))
        try:
            with tempfile.TemporaryFile(dir=paths.folder) as stream:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.PIPE,
                    timeout=FETCH_TIMEOUT_S,
                )
                if done.returncode != 0:
                    return last_line(done.stderr) or f"exit code {done.returncode}"
                stream.seek(0)
                unpack(stream, paths.folder, wanted)
        except HvdprofError as error:
            return error.message
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        return ""

    return on_each(names, get)


def on_each(names: Sequence[str], act: Callable[[str], str]) -> dict[str, str]:
    """Do something on all hosts at once; those where it failed, with the reason."""
    if not names:
        return {}
    with ThreadPoolExecutor(min(len(names), _MAX_AT_ONCE)) as pool:
        reasons = dict(zip(names, pool.map(act, names), strict=True))
    return {name: reason for name, reason in reasons.items() if reason}


def module_error(shell: HostShell, name: str, module: Sequence[str], given: bytes = b"") -> str:
    """Run a module on a host; empty where it went well, else the last line of its errors."""
    try:
        done = subprocess.run(
            shell.command(name, python_program(*module)),
            input=given,
            capture_output=True,
            timeout=MODULE_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return "" if done.returncode == 0 else last_line(done.stderr) or f"code {done.returncode}"


def last_line(printed: bytes) -> str:
    """The last line that is not empty; empty where there is none."""
    lines = [line.strip() for line in printed.decode("utf-8", "replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")
