"""The traces of one job as a run of their own; large ones are parsed once, as timelines are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from hvdprof.ingest.kineto.traced_pass import FileProgress, read_traces, traced_blocks, traced_pass
from hvdprof.ingest.storage import parquet_cache
from hvdprof.ingest.storage.blocks import stacked
from hvdprof.ingest.storage.sealed_file import source_key
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.model.notes import Note, notes_frame, notes_in
from hvdprof.model.schema import Column, Table
from hvdprof.model.tables.log_tables import NOTES
from hvdprof.model.tables.rank_collective_tables import RANK_COLLECTIVES
from hvdprof.model.tables.run_tables import ARRIVALS, EVENTS, RANKS, SEGMENTS, STEPS, WAITS
from hvdprof.model.tables.timeline_tables import EXECUTIONS
from hvdprof.plain_text import printable
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_settings
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.regular_file import shown_name

_ROWS = (SEGMENTS, RANKS, STEPS, EVENTS, WAITS, ARRIVALS, RANK_COLLECTIVES, EXECUTIONS)
_COLUMNS = {"file": "int64", "rank": "Int64", "num_events": "int64", "left_out": "str"}
_USES = Table(
    "trace_uses",
    "What became of one trace, by its place among the files. Of the cache alone.",
    tuple(Column(name, dtype, "") for name, dtype in _COLUMNS.items()),
)
_PACKED = 10
"""A packed trace holds at least so many times its size."""

_OF_ONE_RANK = re.compile(r"[-_.]*(?:rank)?[-_.]*\d*(?:of\d+)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TracedFiles:
    """The manifest of a job, events by trace of it, and of each other file why it is left out."""

    manifest: Manifest
    num_events: dict[Path, int]
    left_out: dict[Path, str]


def add_standalone_traces(
    paths: Sequence[Path],
    builder: RunBuilder,
    progress: FileProgress | None = None,
    jobs: int | None = None,
) -> TracedFiles:
    """Add the tables of the traces of one job; those of large traces are kept in the cache.

    Args:
        paths: The traces.
        builder: Receives tables and notes.
        progress: Called while a file is read; never where the cache has the tables.
        jobs: As for ``read_traces``.

    Raises:
        UnreadableInputError: Several recordings are possible, or no trace is whole.
    """

    def parsed() -> dict[str, pd.DataFrame]:
        return _parsed(paths, progress, jobs)

    try:
        is_large = sum(map(_text_bytes, paths)) >= parquet_cache.CACHE_FROM_BYTES
        # Notes name the files as they were given.
        key = " ".join([source_key(paths), *map(shown_name, paths)]) if is_large else ""
    except OSError:
        # The reading says which file is gone.
        is_large, key = False, ""
    tables = (*_ROWS, NOTES, _USES)
    frames = parquet_cache.cached_frames(tables, paths, parsed, key) if is_large else parsed()
    builder.add_tables((table.name, frames[table.name]) for table in _ROWS)
    builder.notes += notes_in(frames[NOTES.name])
    uses = frames[_USES.name]
    used, others = uses[uses["rank"].notna()], uses[uses["rank"].isna()]
    segment = frames[SEGMENTS.name].iloc[0]
    record = traced_pass(
        int(segment["size"]),
        str(segment["model"]),
        " ".join(sorted({*frames[RANKS.name]["backend"]} - {""})),
        str(segment["engine"]),
    )
    files = [
        AttachedFile(
            kind=AttachedKind.TRACE,
            given=shown_name(paths[place]),
            copy=printable(paths[place].name),
            rank=int(rank),
        )
        for place, rank in zip(used["file"], used["rank"], strict=True)
    ]
    manifest = Manifest.of_files(record.segments[0].segment.model)
    return TracedFiles(
        replace(manifest, passes=[record], settings=attached_settings(files)),
        {paths[file]: int(n) for file, n in zip(used["file"], used["num_events"], strict=True)},
        {paths[file]: why for file, why in zip(others["file"], others["left_out"], strict=True)},
    )


def _text_bytes(path: Path) -> int:
    return path.stat().st_size * (_PACKED if path.suffix in (".gz", ".zst") else 1)


def _parsed(
    paths: Sequence[Path], progress: FileProgress | None, jobs: int | None
) -> dict[str, pd.DataFrame]:
    notes: list[Note] = []
    found = read_traces(paths, notes, progress=progress, jobs=jobs)
    name = _name_of([rank.path for rank in found.ranks.values()])
    record = traced_pass(found.size, name, found.controller, found.engine)
    blocks = traced_blocks(found, record)
    rows = [(one.path, one.rank, one.file.num_records, "") for one in found.ranks.values()]
    lost = [(path, None, 0, reason) for path, reason in found.left_out.items()]
    uses = [
        {"file": paths.index(path), "rank": rank, "num_events": num_events, "left_out": reason}
        for path, rank, num_events, reason in (*rows, *lost)
    ]
    return {
        **{table.name: stacked(table, [b for of, b in blocks if of is table]) for table in _ROWS},
        NOTES.name: notes_frame(notes),
        _USES.name: _USES.frame(uses),
    }


def _name_of(paths: Sequence[Path]) -> str:
    """The name of the first file without its rank and endings."""
    return _OF_ONE_RANK.sub("", printable(paths[0].name).partition(".")[0]) or "trace"
