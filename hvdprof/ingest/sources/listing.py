"""The files below a folder, the paths that a pattern matches, and what is near a missing path."""

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.model.notes import Note, NoteCode
from hvdprof.rundir.layout import MANIFEST_NAME, RUNS_FOLDER, is_run_below, watched_mark
from hvdprof.rundir.regular_file import irregular_kind, shown_name
from hvdprof.units import count

MOST_FILES = 10_000
MOST_FOLDERS_DEEP = 64
_SKIPPED = ("__pycache__", watched_mark(Path()).name)

# rank.0/stdout of horovodrun and mpirun, rank-0.log, job_rank3.out; task.3 of srun.
_RANK_IN_NAME = re.compile(r"(?:^|[^A-Za-z])(?:rank|task)[._-]?(\d{1,6})(?!\d)", re.IGNORECASE)


@dataclass(slots=True)
class Listing:
    """What lies below a folder, each list by name.

    ``notes`` are sentences on what is left out: folders that cannot be listed or lie too deep,
    pipes, devices.
    """

    runs: list[Path] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def listing_of(folder: Path) -> Listing:
    """The files below a folder; hidden ones are left out, links to folders are not followed.

    A run directory in it stands for what it holds, at any depth.

    Raises:
        UnreadableInputError: The folder cannot be listed, or holds far too much.
    """
    found = Listing()
    for path, kind in _walk(folder, folder, 0, found):
        if kind:
            text = f"{shown_name(path)} is {kind}; it is not read."
            found.notes.append(Note(NoteCode.NOT_READ, text))
            continue
        found.files.append(path)
        if len(found.files) > MOST_FILES:
            raise UnreadableInputError(
                f"{shown_name(folder)} holds more than {count(MOST_FILES)} files.",
                hint="Name the files of one job, for example with a pattern.",
            )
    found.files.sort()
    found.runs.sort()
    return found


def _walk(folder: Path, top: Path, depth: int, found: Listing) -> Iterator[tuple[Path, str]]:
    """Each path that is no folder, and what it is unless it is a regular file."""
    if depth > MOST_FOLDERS_DEEP:
        deep = f"lies more than {MOST_FOLDERS_DEEP} folders deep; it is not read."
        found.notes.append(Note(NoteCode.NOT_READ, f"{shown_name(folder)} {deep}"))
        return
    try:
        with os.scandir(folder) as scan:
            entries = [entry for entry in scan if not _is_hidden(entry.name)]
        is_run = any(entry.name == MANIFEST_NAME for entry in entries)
        if depth and is_run and is_run_below(folder, depth):
            found.runs.append(folder)
            return
    except OSError as error:
        reason = f"{shown_name(folder)} cannot be listed: {error.strerror or error}."
        if folder == top:
            raise UnreadableInputError(reason) from error
        found.notes.append(Note(NoteCode.NOT_READ, reason))
        return
    for entry in entries:
        path = folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(path, top, depth + 1, found)
        elif entry.is_dir():
            continue
        elif entry.is_file():
            yield path, ""
        else:
            yield path, _irregular(entry)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED


def _irregular(entry: os.DirEntry[str]) -> str:
    try:
        return irregular_kind(entry.stat().st_mode) or "gone"
    except OSError:
        return "a link that leads nowhere"


def matching(pattern: Path) -> list[Path]:
    """The paths that a pattern such as ``logs/*.txt`` matches; none for a plain path."""
    if not is_pattern(pattern):
        return []
    return sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))


def is_pattern(path: Path) -> bool:
    """Whether a path has characters of patterns in it."""
    return re.search(r"[*?\[]", str(path)) is not None


def missing(path: Path) -> UnreadableInputError:
    """The error for a path that is not there, which names what is near."""
    name = shown_name(path)
    if is_pattern(path):
        return UnreadableInputError(f"No file matches {name}.")
    if path.is_symlink():
        return UnreadableInputError(f"{name} is a link that leads nowhere.")
    absent = path
    while not absent.parent.is_dir():
        absent = absent.parent
    reason = "" if absent == path else f": there is no folder {shown_name(absent)}"
    return UnreadableInputError(f"{name} does not exist{reason}.", hint=_near(absent))


def _near(path: Path) -> str:
    """What the user may have meant: names like it beside it, else the last runs there by name."""
    similar = difflib.get_close_matches(path.name, _names_in(path.parent), n=3)
    if similar:
        return f"Similar: {', '.join(shown_name(path.parent / name) for name in similar)}"
    folders = (path.parent, path.parent / RUNS_FOLDER)
    manifests = [file for folder in folders for file in folder.glob(f"*/{MANIFEST_NAME}")]
    runs = sorted((file.parent for file in manifests), key=lambda run: run.name)[-3:]
    return f"Runs there: {', '.join(map(shown_name, reversed(runs)))}" if runs else ""


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names alone
    except OSError:
        return []


def rank_in_name(path: Path) -> int | None:
    """The rank that a file's name or its folder's names; None where neither does."""
    for name in (path.name, path.parent.name):
        ranks = _RANK_IN_NAME.findall(name)
        if ranks:
            return int(ranks[-1])
    return None
