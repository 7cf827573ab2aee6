"""A word before a large timeline is read without compiled code, which takes minutes."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from hvdprof import api, units
from hvdprof.ingest.recognise import Kind, recognise
from hvdprof.ingest.timeline.read import SLOW_HINT, is_slow
from hvdprof.rundir.layout import RunPaths


def slow_hint(paths: Iterable[Path]) -> str:
    """What to tell the user of some files or run directories; empty where reading is no slower.

    Of a run directory the timelines of its passes are looked at. Only large files are opened,
    and only their ends are read.

    Raises:
        UnreadableInputError: A large file cannot be read.
    """
    for path in paths:
        for file in _files(path):
            if is_slow(file) and recognise(file).kind == Kind.TIMELINE:
                size = units.byte_size(file.stat().st_size)
                return f"{file} has {size} and is read without compiled code: {SLOW_HINT}"
    return ""


def _files(path: Path) -> Iterator[Path]:
    if not api.is_run_directory(path):
        return iter([path] if path.is_file() else [])
    every_timeline = RunPaths(path).of_pass("*").timeline("*").relative_to(path)
    return iter(sorted(path.glob(str(every_timeline))))
