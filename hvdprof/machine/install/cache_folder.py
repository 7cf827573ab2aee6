"""Where wheels, build logs and answers of Horovod are cached for all virtual environments."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from hvdprof.errors import StorageError
from hvdprof.rundir.json_codec import to_text
from hvdprof.rundir.written_file import write_whole


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The user's cache folder of hvdprof; it need not exist.

    ``HVDPROF_CACHE_DIR``, else ``XDG_CACHE_HOME``/hvdprof, else ``~/.cache/hvdprof``.
    """
    variables = os.environ if environment is None else environment
    if variables.get("HVDPROF_CACHE_DIR"):
        return Path(variables["HVDPROF_CACHE_DIR"]).expanduser()
    base = variables.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification: a relative path is invalid and is ignored.
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "hvdprof"


def write_cached(name: str, record: object, *, most: int) -> None:
    """Write a dataclass if that is possible; of its folder, only the ``most`` newest stay."""
    with contextlib.suppress(StorageError, OSError, RuntimeError):
        file = cache_folder() / name
        write_whole(file, to_text(record), mode=0o600)
        by_age = sorted(file.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for old in by_age[:-most]:
            old.unlink(missing_ok=True)


def stamps(files: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Size and time of change in ns of each file; empty for one that is not there."""
    found: dict[str, tuple[int, ...]] = dict.fromkeys(files, ())
    for file in found:
        with contextlib.suppress(OSError):
            status = Path(file).stat()
            found[file] = status.st_size, status.st_mtime_ns
    return found
