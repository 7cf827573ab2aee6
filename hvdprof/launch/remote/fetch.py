"""Files that ranks wrote on hosts which do not see the run directory: fetched from there."""

import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hvdprof.errors import HvdprofError
from hvdprof.launch.plan.workload import python_program
from hvdprof.launch.remote.pass_files import unpack, written_folders
from hvdprof.launch.remote.remote_shell import HostShell
from hvdprof.rundir.layout import PassPaths

FILES = "hvdprof.launch.remote.pass_files"
FETCH_TIMEOUT_S = 900.0
MODULE_TIMEOUT_S = 60.0
FETCH_AFTER_S = 5.0

_MAX_AT_ONCE = 16


class WatchFetch:
    """Fetches the states that ranks without progress write, while no rank makes progress.

    Without them a stalled rank on such a host would look like one that never began.

    Args:
        paths: The pass, absolute.
        names: The hosts that do not see it.
        shell: How they are reached.
        clock: Seconds of a monotonic clock.
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
    paths: PassPaths,
    names: Sequence[str],
    shell: HostShell,
    folders: Sequence[Path] | None = None,
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
