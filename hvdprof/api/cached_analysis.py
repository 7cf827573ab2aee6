"""Finished analyses of run directories in the user's cache folder, for the next command.

An entry serves while all files of the run (sizes, times of change), hvdprof's version and sources,
Python, the libraries and the price are the same. Entries are pickles: one is read only where this
user's key sealed it and no other user may write to it, so no file of a run is ever unpickled.

What a command printed of an analysis has an entry of its own: the same terminal and variables get
it again without tables, and pandas is not imported.
"""

import contextlib
import fnmatch
import functools
import hashlib
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, TextIO, cast

from hvdprof import __version__
from hvdprof.errors import StorageError
from hvdprof.machine.install.cache_folder import cache_folder
from hvdprof.rundir.gpu_crowd import PRICE
from hvdprof.rundir.manifest import NOT_ENDED, Manifest
from hvdprof.rundir.trusted_file import is_sealed, open_trusted, seal, trusted_folder
from hvdprof.rundir.written_file import open_whole

if TYPE_CHECKING:
    import pandas as pd

    from hvdprof.ingest.load import ProgressCallback
    from hvdprof.model.cached_rows import LazyFrames
    from hvdprof.model.run import RunAnalysis

SWITCH = "HVDPROF_ANALYSIS_CACHE"
"""Environment variable: with 0, analyses are neither cached nor taken from the cache."""

MOST_BYTES = 256_000_000
"""Of all entries together; beyond it the oldest are removed."""

MOST_VALUES = 1_000_000
"""Tables with more values are left out, and made again where one is used."""

VARIABLES = (
    *("COLORTERM", "COLUMNS", "DATABRICKS_", "FORCE_COLOR", "HVDPROF_", "JUPYTER_", "LANG", "LC_"),
    *("LINES", "NO_COLOR", "PYTHON", "TERM", "TTY_", "TZ", "UNICODE_VERSION"),
)
"""How the names of all variables begin by which hvdprof, rich or Python may print otherwise."""

FOLDER, _SEAL_LETTERS = "analyses", 64
_PRINTING = ("numpy", "pandas", "pyarrow", "scipy", "rich")
_SETTLED_NS = 50_000_000
"""Kernels stamp changes some milliseconds coarsely: a file may change again under one stamp."""


def cached_analysis(
    folder: Path, price: float | None, progress: "ProgressCallback | None"
) -> "RunAnalysis":
    """The finished analysis of a run directory, from the cache, else made and put there."""
    key, changed_ns = _key(folder, price)
    if (found := _read(key)) is not None:
        return replace(found, run=replace(found.run, folder=folder))
    is_cached = bool(key) and Manifest.read(folder).status not in NOT_ENDED
    if is_cached:
        time.sleep(min(max(changed_ns + _SETTLED_NS - time.time_ns(), 0), _SETTLED_NS) / 1e9)
    made = _made(folder, price, progress)
    if is_cached and _key(folder, price)[0] == key:
        with contextlib.suppress(StorageError, OSError, RuntimeError):
            _write(key, made, price)
    return made


def print_cached(
    folder: Path, price: float | None, stream: TextIO, render: Callable[[TextIO], object]
) -> None:
    """Write what ``render`` writes of the analysis of a run directory, from the cache where known.

    It is cached where the analysis is, and its errors are those of ``render``.
    """
    key = _text_key(folder, price, stream)
    if (known := _content(key)) is not None:
        stream.write(known.decode("utf-8", "surrogatepass"))
        return
    texts: list[str] = []

    def write(text: str) -> int:
        texts.append(text)
        return stream.write(text)

    same = {name: getattr(stream, name) for name in ("encoding", "fileno", "flush", "isatty")}
    render(cast(TextIO, SimpleNamespace(write=write, **same)))
    entry = cache_folder() / FOLDER / _key(folder, price)[0]
    if key and entry.is_file() and _text_key(folder, price, stream) == key:
        with contextlib.suppress(StorageError, OSError, RuntimeError):
            _put(key, "".join(texts).encode("utf-8", "surrogatepass"))


def _made(
    folder: Path, price: float | None, progress: "ProgressCallback | None" = None
) -> "RunAnalysis":
    # Their imports take half of the time of an analysis that is in the cache.
    from hvdprof.analyze.pipeline import analyze_run
    from hvdprof.ingest import load

    return analyze_run(load.load_run([folder], progress=progress), price)


def _key(folder: Path, price: float | None) -> tuple[str, int]:
    """The name of the entry, and the last change of a file; empty where nothing is cached."""
    from importlib.metadata import version

    import numpy as np
    import pandas as pd
    import pyarrow as pa

    libraries = (np.__version__, pd.__version__, pa.__version__, version("scipy"))
    return _named(folder, price, libraries)


def _text_key(folder: Path, price: float | None, stream: TextIO) -> str:
    """The name of the entry of what is printed; empty where nothing is cached."""
    variables = {name: text for name, text in os.environ.items() if name.startswith(VARIABLES)}
    sizes = []
    for descriptor in range(3):
        with contextlib.suppress(OSError):
            sizes.append((descriptor, os.get_terminal_size(descriptor)))
    try:
        place = os.fspath(folder), Path.cwd()
        specs = [find_spec(name) for name in _PRINTING]
        libraries = [(spec.origin, _stamp(Path(str(spec.origin)).stat())) for spec in specs if spec]
    except OSError:
        return ""
    shape = stream.encoding, stream.isatty(), sizes, sorted(variables.items())
    return _named(folder, price, (place, libraries, shape))[0]


def _named(folder: Path, price: float | None, facts: object) -> tuple[str, int]:
    """The name of an entry that also depends on some facts, and the last change of a file."""
    if os.environ.get(SWITCH) == "0":
        return "", 0
    try:
        files, own = _stamps(folder.resolve(), "*"), _own_sources()
    except OSError:
        return "", 0
    whole = repr(((__version__, sys.version), facts, own, price, os.environ.get(PRICE), files))
    last_ns = max((one[-1] for one in files.values()), default=0)
    return hashlib.sha256(whole.encode()).hexdigest(), last_ns


@functools.cache
def _own_sources() -> str:
    """As they were at the first use: modules that this process imported do not change."""
    return repr(_stamps(Path(__file__).parents[1], "*.py"))


def _stamps(folder: Path, names: str) -> dict[str, tuple[int, ...]]:
    """Device, inode, size and times of change in ns of the files below a folder, by path.

    Raises:
        OSError: A file cannot be looked at, or a link stands for a folder.
    """
    found: dict[str, tuple[int, ...]] = {}
    folders = [os.fspath(folder)]
    for place in folders:
        with os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                # The tables that reading the run leaves there, and compiled code.
                if entry.name in (".hvdprof-cache", "__pycache__"):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif fnmatch.fnmatchcase(entry.name, names):
                    if entry.is_dir():
                        raise NotADirectoryError(entry.path)
                    found[entry.path] = _stamp(entry.stat())
    return found


def _stamp(one: os.stat_result) -> tuple[int, ...]:
    return one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns


def _content(key: str) -> bytes | None:
    """The content of an entry; None where there is none that this user wrote, or a damaged one."""
    try:
        with open_trusted(cache_folder() / FOLDER / key) as file:
            stated, content = file.read(_SEAL_LETTERS), file.read()
    except (OSError, RuntimeError):
        return None
    return content if is_sealed(_bound(key, content), stated.decode("latin-1")) else None


def _read(key: str) -> "RunAnalysis | None":
    if (content := _content(key)) is None:
        return None
    import pyarrow as pa

    size, packed = pickle.loads(content)
    return cast("RunAnalysis", pickle.loads(pa.decompress(packed, size, "zstd", asbytes=True)))


def _write(key: str, made: "RunAnalysis", price: float | None) -> None:
    import pyarrow as pa

    run, again = made.run, functools.partial(_again, key, made.run.folder.resolve(), price)
    of_run = replace(run, frames=_lean(run.frames, run.unread, again))
    lean = replace(made, run=of_run, derived=_lean(made.derived, made.unread, again))
    whole = pickle.dumps(lean, 5)
    _put(key, pickle.dumps((len(whole), pa.compress(whole, "zstd", asbytes=True)), 5))


def _put(key: str, content: bytes) -> None:
    """Make an entry, and remove the oldest ones that are too many.

    Raises:
        OSError: There is no place for it, or another process removes an entry, too.
    """
    path, stated = cache_folder() / FOLDER / key, seal(_bound(key, content))
    if not stated or not trusted_folder(path.parent):
        return
    with open_whole(path, binary=True, mode=0o600) as file:
        cast(IO[bytes], file).write(stated.encode() + content)
    left = MOST_BYTES
    for entry in sorted(path.parent.iterdir(), key=lambda one: -one.lstat().st_mtime_ns):
        left -= entry.lstat().st_size
        if left < 0:
            entry.unlink(missing_ok=True)


def _bound(key: str, content: bytes) -> bytes:
    """What is sealed: nothing that is sealed elsewhere, nor the content of another entry."""
    return b"\0".join((b"hvdprof analysis", key.encode(), content))


def _lean(
    frames: "Mapping[str, pd.DataFrame]", unread: Set[str], again: "Callable[[str], pd.DataFrame]"
) -> "LazyFrames":
    from hvdprof.model.cached_rows import LazyFrames

    rows = {name: len(frames[name]) for name in frames if name not in unread}
    ready = {name: frames[name] for name in rows if frames[name].size <= MOST_VALUES}
    left_out = {name: functools.partial(again, name) for name in frames if name not in ready}
    return LazyFrames(ready, left_out, {name: rows[name] for name in rows.keys() - ready.keys()})


def _again(key: str, folder: Path, price: float | None, name: str) -> "pd.DataFrame":
    made = _made_again(key, folder, price)
    return made.run.frames[name] if name in made.run.frames else made.derived[name]


@functools.lru_cache(maxsize=1)
def _made_again(_key: str, folder: Path, price: float | None) -> "RunAnalysis":
    return _made(folder, price)
