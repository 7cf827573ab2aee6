"""Windows of light recordings to steps: each is the mean step of a window that all ranks share.

Ranks end their windows at multiples of powers of two of steps, of lengths that each chooses. So
windows of different ranks nest, and those between two ends that all ranks share are added up. Short
windows from the begin of a run are added up likewise, to windows of about equal length: each of
them has the weight of a step in what follows.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from hvdprof.ingest.recorder.recorder_file import RecorderFile, SegmentRecording
from hvdprof.ingest.recorder.step_phases import PHASE_PARTS, UNKNOWN, UNSEEN, RecordedWindows
from hvdprof.model.arrays import Bools, Float64s, Int64s

LEAST_ROWS = 24
"""Windows of which a launch consists at least, where it has short enough ones."""

Columns = Mapping[str, Int64s]


def steps_from_windows(files: Collection[RecorderFile]) -> None:
    """Give light recordings steps, each with ``num_steps`` of which it is the mean.

    Args:
        files: What each rank of a pass recorded; changed in place.
    """
    names = dict.fromkeys(name for file in files for name in file.segments)
    for name in names:
        recordings = [file.segments[name] for file in files if name in file.segments]
        light = [recording for recording in recordings if len(recording.windows)]
        if not light:
            continue
        tables = [recording.windows.table() for recording in light]
        starts, ends = shared_windows(tables)
        for recording, table in zip(light, tables, strict=True):
            _fill(recording, table, starts, ends)


def shared_windows(tables: Sequence[Columns]) -> tuple[Int64s, Int64s]:
    """First step of each window that the windows of all ranks can be added up to, and its end.

    Windows of warm-up steps, and a step in which a rank evaluates alone in its window, stay apart
    from the others.

    Args:
        tables: ``RecordedWindows.table`` of each rank.
    """
    edges = _shared_edges(tables)
    starts, ends = edges[:-1], edges[1:]
    apart, is_filled = np.zeros(len(starts), dtype=bool), np.zeros(len(starts), dtype=bool)
    for table in tables:
        place = np.searchsorted(edges, table["step"], side="right") - 1
        place = np.clip(place, 0, max(len(starts) - 1, 0))
        if len(starts):
            is_filled[place] = True
            is_single = (table["evaluation_ns"] >= 0) & (ends - starts == 1)[place]
            apart[place[(table["warmup"] > 0) | is_single]] = True
    return _about_equal(starts[is_filled], ends[is_filled], apart[is_filled])


def _shared_edges(tables: Sequence[Columns]) -> Int64s:
    """The steps at which windows of all ranks begin or end that have recorded so far."""
    own = [np.unique(np.concatenate([table["step"], table["last_step"] + 1])) for table in tables]
    edges, counts = np.unique(np.concatenate(own), return_counts=True)
    first = np.sort([steps[0] for steps in own])
    last = np.sort([steps[-1] for steps in own])
    num_recording = np.searchsorted(first, edges, side="right") - np.searchsorted(last, edges)
    return np.asarray(edges[counts == num_recording])


def _about_equal(starts: Int64s, ends: Int64s, apart: Bools) -> tuple[Int64s, Int64s]:
    """Neighbouring windows added up to the length of the longest of which there would be many."""
    plain = np.unique((ends - starts)[~apart])
    num_steps = int((ends - starts)[~apart].sum())
    many = plain[plain * LEAST_ROWS <= num_steps]
    usual = int(many[-1]) if len(many) else 1
    merged: list[list[int]] = []
    is_open = False
    for start, end, is_apart in zip(starts.tolist(), ends.tolist(), apart.tolist(), strict=True):
        follows = bool(merged) and merged[-1][1] == start and is_open and not is_apart
        if follows and merged[-1][1] - merged[-1][0] < usual:
            merged[-1][1] = end
        else:
            merged.append([start, end])
        is_open = not is_apart
    whole = np.array(_with_rests(merged, usual), dtype=np.int64).reshape(-1, 2)
    return whole[:, 0], whole[:, 1]


def _with_rests(merged: list[list[int]], usual: int) -> list[list[int]]:
    """The last window of a run, where it is shorter than usual, with that before.

    Every window has the weight of one in what follows; a rest of its own would count too much.
    """
    if len(merged) < 2:
        return merged
    (before, end), (start, last) = merged[-2:]
    if end == start and last - start < usual <= end - before:
        return [*merged[:-2], [before, last]]
    return merged


def _fill(recording: SegmentRecording, table: Columns, starts: Int64s, ends: Int64s) -> None:
    """Add the steps of one rank: those of the shared windows that it recorded whole."""
    place = np.searchsorted(starts, table["step"], side="right") - 1
    inside = (place >= 0) & (table["last_step"] < ends[np.maximum(place, 0)])
    first = np.full(len(starts), np.iinfo(np.int64).max)
    last = np.full(len(starts), -1)
    np.minimum.at(first, place[inside], table["step"][inside])
    np.maximum.at(last, place[inside], table["last_step"][inside])
    chosen = (first == starts) & (last + 1 == ends)
    inside &= chosen[np.maximum(place, 0)]
    rows = np.flatnonzero(inside)
    if not len(rows):
        return
    of_row = place[rows]
    begins = np.flatnonzero(np.diff(of_row, prepend=-1))
    table = {name: values[rows] for name, values in table.items()}
    lengths = (ends - starts)[of_row[begins]]
    _add_rows(recording, table, begins, lengths)
    recording.losses.extend(_mean_losses(recording.windows, rows, table["num_steps"], begins))
    _add_waits(recording, rows, begins)


def _add_rows(recording: SegmentRecording, table: Columns, begins: Int64s, lengths: Int64s) -> None:
    def total(name: str) -> Int64s:
        return np.asarray(np.add.reduceat(table[name], begins))

    recorded = total("num_steps")
    last_row = np.append(begins[1:], len(table["step"])) - 1
    start_ns, end_ns = table["start_ns"][begins], table["end_ns"][last_row]
    dur_ns = np.maximum(np.rint((end_ns - start_ns) / lengths).astype(np.int64), 1)
    parts = {part: _rounded(total(f"{part}_sum_ns"), recorded) for part in PHASE_PARTS}
    blocked = _rounded(total("blocked_sum_ns"), recorded)
    is_seen = np.minimum.reduceat(table["is_seen"], begins) > 0
    other = dur_ns - sum(parts.values()) - np.where(is_seen, blocked, 0)
    columns = (
        table["step"][begins],
        np.maximum.reduceat(table["warmup"], begins),
        start_ns,
        dur_ns,
        np.maximum(_rounded(total("samples"), recorded), 1),
        *(parts[part] for part in ("data", "forward", "backward")),
        np.where(is_seen, blocked, UNSEEN),
        parts["before_update"],
        parts["optimizer"],
        other,
    )
    recording.steps.frombytes(np.ascontiguousarray(np.column_stack(columns)).tobytes())
    recording.counts.frombytes(lengths.astype(np.int64).tobytes())
    evaluates = np.maximum.reduceat(table["evaluation_ns"], begins)
    # Within a longer window the end of the evaluation says nothing about the mean step.
    evaluation_ns = np.where((evaluates >= 0) & (lengths > 1), 0, evaluates)
    recording.evaluation_ns.frombytes(evaluation_ns.astype(np.int64).tobytes())
    of_window = np.maximum.reduceat(table["evaluation_blocked_ns"], begins)
    blocked_ns = np.where(of_window == UNKNOWN, UNSEEN, of_window)
    recording.evaluation_blocked_ns.frombytes(blocked_ns.astype(np.int64).tobytes())


def _add_waits(recording: SegmentRecording, rows: Int64s, begins: Int64s) -> None:
    """The waits of each mean step, laid out backwards from the end of its window."""
    windows = recording.windows
    table = windows.table()
    waits = windows.wait_table()
    kinds = list(windows.kinds)
    first_wait = np.searchsorted(waits[:, 0], np.arange(len(windows) + 1))
    steps = recording.step_table()
    bounds = np.append(begins, len(rows))
    for step, (low, high) in enumerate(itertools.pairwise(bounds)):
        own = rows[low:high]
        recorded = int(table["num_steps"][own].sum())
        if steps[step, 8] == UNSEEN or not table["blocked_sum_ns"][own].any():
            continue
        sums = _by_kind(waits[first_wait[own[0]] : first_wait[own[-1] + 1]])
        end_ns = int(steps[step, 3]) * recording.counts[step]
        release_ns = end_ns - round(int(table["after_ns"][own].sum()) / recorded)
        placed = []
        for code, own_ns, blocked_ns, num_ranks in reversed(sums):
            length = round(blocked_ns / recorded)
            placed.append((code, max(release_ns - length, 0), length, num_ranks))
            release_ns -= length + round(own_ns / recorded)
        for code, offset, length, num_ranks in reversed(placed):
            recording.waits.extend((step, offset, length, UNSEEN, num_ranks))
            kind = kinds[code]
            recording.wait_codes.append(
                recording.wait_kinds.setdefault(kind, len(recording.wait_kinds))
            )


def _by_kind(waits: Int64s) -> list[tuple[int, int, int, int]]:
    """Kind, own time before, length, and ranks of the waits of some windows, by kind."""
    sums: dict[int, tuple[int, int, int]] = {}
    for _, code, _, own_ns, blocked_ns, num_ranks in waits.tolist():
        own, blocked, ranks = sums.get(code, (0, 0, num_ranks))
        sums[code] = own + own_ns, blocked + blocked_ns, ranks if ranks == num_ranks else 0
    return [(code, *values) for code, values in sums.items()]


def _mean_losses(
    windows: RecordedWindows, rows: Int64s, num_steps: Int64s, begins: Int64s
) -> list[float]:
    losses: Float64s = np.asarray(windows.losses)[rows]
    return [
        float(value)
        for value in np.add.reduceat(losses * num_steps, begins)
        / np.add.reduceat(num_steps, begins)
    ]


def _rounded(sums: Int64s, numbers: Int64s) -> Int64s:
    return np.asarray(np.rint(sums / numbers), dtype=np.int64)
