"""Which recording some traces are read as; where several are possible, how to read each."""

import datetime as dt
import shlex
from collections.abc import Sequence
from pathlib import Path

from hvdprof import units
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.kineto.recordings import RankedTrace, Recording, ranked, recordings_of
from hvdprof.ingest.kineto.trace_file import TraceFile
from hvdprof.plain_text import printable
from hvdprof.rundir.regular_file import shown_name

_MOST_NAMED = 3
_MOST_LISTED = 8
_LONGEST_COMMAND = 160
_LEAST_COMMON = 3
"""Letters that names must have in common for a pattern."""


def one_recording(
    files: Sequence[tuple[Path, TraceFile]], left_out: dict[Path, str]
) -> dict[int, tuple[Path, TraceFile]]:
    """The traces of one recording by rank: the only one, or the only one with every rank.

    Args:
        files: Each trace with what it holds.
        left_out: Files of which nothing is used, each with a sentence that says why; receives
            damaged traces, copies and traces of other recordings.

    Raises:
        UnreadableInputError: No trace is whole, or several recordings are possible.
    """
    num_given = len(files) + len(left_out)
    whole = _usable(ranked(files), left_out)
    if not whole:
        raise UnreadableInputError(
            " ".join(
                [
                    *([f"None of the {num_given} traces is whole."] if num_given > 1 else []),
                    *list(left_out.values())[:_MOST_NAMED],
                ]
            ),
            hint="Export the trace again, or copy the file again.",
        )
    recordings = recordings_of(whole)
    complete = [recording for recording in recordings if recording.is_whole]
    if len(recordings) > 1 and len(complete) != 1:
        _refuse(recordings, len(complete), list(left_out.values()))
    chosen = recordings[0] if len(recordings) == 1 else complete[0]
    for other in recordings:
        if other is not chosen:
            left_out |= dict.fromkeys(other.paths, _left_out(other, recordings))
    return {rank: (one.path, one.file) for rank, one in sorted(chosen.traces.items())}


def _usable(traces: Sequence[RankedTrace], left_out: dict[Path, str]) -> list[RankedTrace]:
    found: list[RankedTrace] = []
    for trace in traces:
        name, file = shown_name(trace.path), trace.file
        if file.notes:
            left_out[trace.path] = f"{name}: {file.notes[0]}; it is left out."
        elif trace.rank is not None and file.size is not None and trace.rank >= file.size:
            left_out[trace.path] = (
                f"{name} says that it is of rank {trace.rank} of {file.size} ranks; it is left out."
            )
        elif same := next((other for other in found if _is_copy(trace, other)), None):
            left_out[trace.path] = f"{name}: a copy of {shown_name(same.path)}; it is left out."
        else:
            found.append(trace)
    return found


def _is_copy(one: RankedTrace, other: RankedTrace) -> bool:
    # Ranks that do the same may write the same.
    return (
        one.rank is not None
        and (one.rank, one.span) == (other.rank, other.span)
        and one.file.num_records == other.file.num_records
        and one.file.annotations == other.file.annotations
        and one.file.calls == other.file.calls
    )


def _refuse(recordings: Sequence[Recording], num_complete: int, notes: Sequence[str]) -> None:
    """Raise the error that lists all recordings, each with the command that analyzes it."""
    number = sum(len(recording.traces) for recording in recordings)
    how_many = f"{num_complete} of them have" if num_complete else "none of them has"
    lines = [
        f"These {number} traces are of {len(recordings)} recordings, which are not analyzed "
        f"together; {how_many} a trace of every rank:"
    ]
    ordered = sorted(recordings, key=lambda recording: not recording.is_whole)
    for recording in ordered[:_MOST_LISTED]:
        lines += [f"  - {_described(recording)}", f"      {command_of(recording, recordings)}"]
    if more := len(ordered) - _MOST_LISTED:
        lines += [f"  - and {more} more"] if more > 0 else []
    lines += [f"  {note}" for note in notes[:_MOST_NAMED]]
    hint = "Analyze one recording with the command below it."
    if any(trace.rank is None for recording in recordings for trace in recording.traces.values()):
        hint += " If they are ranks of one job, name the files so: trace_rank0.json.gz."
    elif not num_complete:
        hint += " For the straggler, collect the traces of all its ranks, of one time."
    raise UnreadableInputError("\n".join(lines), hint=hint)


def _left_out(other: Recording, recordings: Sequence[Recording]) -> str:
    names = [shown_name(path) for path in other.paths]
    more = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
    return (
        f"{names[0]}{more} of another recording ({_described(other)}), which is left out. Analyze "
        f"it alone: {command_of(other, recordings)}"
    )


def _described(one: Recording) -> str:
    """``all 2 ranks on node0, 2026-11-25 23:12:55 UTC, 0.21 s``."""
    traces = [trace for _, trace in sorted(one.traces.items())]
    if any(trace.rank is None for trace in traces):
        parts = ["a trace that does not say which rank wrote it"]
    elif one.is_whole:
        parts = [f"all {one.size} ranks" if one.size > 1 else "the only rank"]
    elif len(traces) == 1:
        parts = [f"rank {min(one.traces)} of {one.size}"]
    else:
        parts = [f"{len(traces)} of {one.size} ranks"]
    hosts = list(dict.fromkeys(trace.file.host for trace in traces if trace.file.host))
    if hosts:
        more = f" and {len(hosts) - 1} more hosts" if len(hosts) > 1 else ""
        parts[0] += f" on {printable(hosts[0])}{more}"
    spans = [span for trace in traces if (span := trace.span) is not None]
    if spans:
        begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
        moment = dt.datetime.fromtimestamp(begin / 1e9, dt.UTC)
        parts += [f"{moment:%Y-%m-%d %H:%M:%S} UTC", units.milliseconds(float(end - begin))]
    return ", ".join(parts)


def command_of(one: Recording, recordings: Sequence[Recording]) -> str:
    """The command that analyzes one recording alone; its files where they are in an archive.

    A folder with this recording alone stands for it; otherwise its files, or a pattern that no
    other file of their folder matches where their names are long.

    Args:
        one: The recording.
        recordings: All of them.
    """
    if any(shown_name(path) != printable(str(path)) for path in one.paths):
        names = ", ".join(shown_name(path) for path in one.paths)
        return f"unpack the archive, and analyze {names} alone"
    others = {path for other in recordings for path in other.paths} - set(one.paths)
    folder = one.paths[0].parent
    is_alone = not any(path.is_relative_to(folder) for path in others)
    # A folder may hold other files, which would be read as well.
    if is_alone and len(one.paths) > 1 and _names(folder) == {path.name for path in one.paths}:
        return f"hvdprof analyze {_quoted(folder)}"
    command = f"hvdprof analyze {' '.join(map(_quoted, one.paths))}"
    if len(command) > _LONGEST_COMMAND and (pattern := _pattern(one.paths)):
        return f"hvdprof analyze {_quoted(pattern)}"
    return command


def _pattern(paths: Sequence[Path]) -> Path | None:
    """A pattern for the files of one folder that no other name in it matches."""
    folder = paths[0].parent
    names = [path.name for path in paths]
    if any(path.parent != folder for path in paths) or set("*?[").intersection(str(folder)):
        return None
    others = _names(folder) - set(names)
    first = min(names, key=len)
    for length in range(len(first), _LEAST_COMMON - 1, -1):
        for start in range(len(first) - length + 1):
            part = first[start : start + length]
            is_common = all(part in name for name in names) and not set("*?[").intersection(part)
            if is_common and not any(part in name for name in others):
                return folder / f"*{part}*"
    return None


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir() if not entry.name.startswith(".")}


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
