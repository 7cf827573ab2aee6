"""Folders of one launch alone, for what launchers otherwise share among all jobs of a user.

Every ``mpirun`` of a user puts its session below one folder of the host, and removes that folder
when it ends: also while another one is about to make its own below it, which then fails ("A call
to mkdir was unable to create the desired directory ... File exists"). Ranks that are killed leave
their segments in ``/dev/shm``, and ``torchrun`` leaves a folder for logs in ``TMPDIR``. Hydra and
``horovodrun`` leave nothing.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

PREFIX = "hvdprof-launch-"
LONGEST_BASE = 40
"""Characters of a path below which Open MPI's sockets still fit into their 108."""

_SHARED_MEMORY = "/dev/shm"
_LOCK = "in-use"
_UNLOCKED_S = 600.0
"""A folder without a lock that is older was left between its making and its locking."""

# Open MPI 4, then 5. Those of the launching host alone cannot be used: mpirun gives its ranks the
# general one as well, and they refuse both together.
_SESSION = ("OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base")
_CHOSEN_SESSION = (
    *_SESSION,
    *("OMPI_MCA_orte_local_tmpdir_base", "OMPI_MCA_orte_remote_tmpdir_base"),
    *("PRTE_MCA_prte_local_tmpdir_base", "PRTE_MCA_prte_remote_tmpdir_base"),
)
_TORCHRUN_LOGS = "PET_LOG_DIR"
_SEGMENTS = ("OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory")


class OwnFolders:
    """The folders of one launch; ``variables`` name them to its launcher.

    A folder that cannot be made is left out: the launcher then takes its usual one. Open MPI takes
    the one that the user has chosen.

    Args:
        environment: That of the launch.
        logs: Where ``torchrun`` writes what the user lets it redirect.
        is_on_this_host: Whether all ranks are on this host. Others would make folders of that name,
            and leave them.
    """

    def __init__(
        self, environment: Mapping[str, str], logs: Path, *, is_on_this_host: bool
    ) -> None:
        self._kept = contextlib.ExitStack()
        self._kept.callback(_remove_empty, logs)
        self.variables = {_TORCHRUN_LOGS: str(logs)}
        if not is_on_this_host:
            return
        chosen = environment.get("TMPDIR") or tempfile.gettempdir()
        bases = [base for base in (chosen, "/tmp") if len(base) <= LONGEST_BASE]
        if environment.keys().isdisjoint(_CHOSEN_SESSION):
            self._make(bases, _SESSION)
        if environment.keys().isdisjoint(_SEGMENTS):
            self._make([_SHARED_MEMORY], _SEGMENTS)

    def remove(self) -> None:
        """Remove them with all that the launch has left in them; it has ended. Logs stay."""
        self._kept.close()

    def _make(self, bases: Iterable[str], names: tuple[str, ...]) -> None:
        for base in map(Path, bases):
            with contextlib.suppress(OSError):
                remove_left_over(base)
                folder = self._kept.enter_context(_locked_folder(base))
                self.variables |= dict.fromkeys(names, str(folder))
                return


def remove_left_over(base: Path) -> None:
    """Remove the folders of launches whose hvdprof has died; those of other users stay.

    Raises:
        OSError: The folders are not there or cannot be listed.
    """
    for folder in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                _remove_where_unlocked(folder, time.time() - status.st_mtime)


@contextlib.contextmanager
def _locked_folder(base: Path) -> Iterator[Path]:
    """A new folder that no other user can read; the lock in it ends with this process.

    Raises:
        OSError: It cannot be made, or another launch has just taken it for left over.
    """
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    try:
        handle = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (folder / _LOCK).lstat()
            yield folder
        finally:
            os.close(handle)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_empty(folder: Path) -> None:
    for path, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            Path(path).rmdir()


def _remove_where_unlocked(folder: Path, age_s: float) -> None:
    try:
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        if age_s > _UNLOCKED_S:
            folder.rmdir()
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(handle)
