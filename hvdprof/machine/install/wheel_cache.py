"""A cache of built Horovod wheels: the next environment takes seconds instead of minutes."""

import hashlib
import platform
import shutil
import sys
import zipfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

from hvdprof.errors import StorageError
from hvdprof.rundir.trusted_file import is_trusted, let_only_owner_write
from hvdprof.rundir.written_file import open_whole

# Counts up when the way of building changes, so that wheels of the old way are not used.
RECIPE_VERSION = 1

_LIBRARIES = ("horovod/torch/mpi_lib_v2", "horovod/tensorflow/mpi_lib")


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelKey:
    """Everything that decides whether a wheel built once fits an environment.

    Nothing of the building environment's place is in it: a wheel finds the libraries of the
    environment in which it is installed. ``torch`` and ``tensorflow`` are the versions that it was
    built for, empty without.
    """

    horovod: str
    torch: str
    python: str
    mpi: str
    flags: tuple[str, ...]
    platform: str
    recipe: int = RECIPE_VERSION
    tensorflow: str = ""

    @property
    def folder_name(self) -> str:
        """A readable name that is unique to the key."""
        # What is empty is left out: keys without it keep the name that they had before.
        values = sorted((name, value) for name, value in asdict(self).items() if value != "")
        digest = hashlib.sha256(repr(values).encode()).hexdigest()[:12]
        of = {"torch": self.torch, "tensorflow": self.tensorflow}
        frameworks = "-".join(f"{name}-{version}" for name, version in of.items() if version)
        return f"horovod-{self.horovod}-{frameworks}-{self.python}-{self.mpi}-{digest}"


def python_tag() -> str:
    """The running interpreter's tag, ``'cpython-311'``."""
    return sys.implementation.cache_tag or f"py{sys.version_info.major}{sys.version_info.minor}"


def platform_tag() -> str:
    """System, processor and C library, ``'linux-x86_64-glibc2.36'``: a home may be shared."""
    library = "".join(platform.libc_ver())
    return "-".join(part for part in (sys.platform, platform.machine(), library) if part)


class WheelCache:
    """The wheels in a folder, one subfolder per key.

    Args:
        folder: The cache folder; it is made when something is stored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, key: WheelKey) -> Path | None:
        """The undamaged wheel of a key, ``None`` where there is none; a damaged one is removed.

        A wheel that another user may have written is left alone and not used.
        """
        for wheel in sorted((self.folder / key.folder_name).glob("horovod-*.whl")):
            if not is_trusted(wheel):
                continue
            if is_whole(wheel):
                return wheel
            wheel.unlink(missing_ok=True)
        return None

    def store(self, key: WheelKey, built: Path) -> Path:
        """Copy a wheel into the cache, whole or not at all, and return its place there.

        Raises:
            StorageError: The cache folder is not writable or the disk is full.
        """
        place = self.folder / key.folder_name / built.name
        with built.open("rb") as source, open_whole(place, binary=True) as target:
            shutil.copyfileobj(source, target)  # type: ignore[misc]
        if not is_whole(place):
            place.unlink(missing_ok=True)
            raise StorageError(f"The wheel was damaged on its way to {place}.")
        let_only_owner_write(place)
        return place


def is_whole(wheel: Path) -> bool:
    """Whether a file is a Horovod wheel with its compiled library, every checksum right."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            has_library = any(name.startswith(_LIBRARIES) for name in names)
            has_record = any(name.endswith(".dist-info/RECORD") for name in names)
            return has_library and has_record and archive.testzip() is None
    except (OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        return False
