"""Profiler traces that lie anywhere, as a run of their own: its manifest and its tables.

Tested in ``tests/ingest/kineto/test_traced_run.py``.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hvdprof.ingest.kineto.trace_set import TraceSet
from hvdprof.ingest.kineto.traced_pass import FileProgress, read_traces, traced_blocks, traced_pass
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.plain_text import printable
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_settings
from hvdprof.rundir.file_names import shown_name
from hvdprof.rundir.manifest import Manifest

_OF_ONE_RANK = re.compile(r"[-_.]*(?:rank)?[-_.]*\d*(?:of\d+)?$", re.IGNORECASE)


def add_standalone_traces(
    paths: Sequence[Path], builder: RunBuilder, progress: FileProgress | None = None
) -> tuple[Manifest, TraceSet]:
    """Add the tables of the traces of one job; returns its manifest, and what they hold.

    Args:
        paths: The traces.
        builder: Receives tables and notes.
        progress: Called while a file is read.

    Raises:
        UnreadableInputError: Several recordings are possible, or no trace is whole.
    """
    found = read_traces(paths, builder.notes, progress=progress)
    name = _name_of([rank.path for rank in found.ranks.values()])
    record = traced_pass(found.size, name, found.controller, found.engine)
    for table, block in traced_blocks(found, record):
        builder.add_block(table, block)
    files = [
        AttachedFile(
            kind=AttachedKind.TRACE,
            given=shown_name(rank.path),
            copy=printable(rank.path.name),
            rank=rank.rank,
        )
        for rank in found.ranks.values()
    ]
    manifest = replace(Manifest.of_files(name), passes=[record], settings=attached_settings(files))
    return manifest, found


def _name_of(paths: Sequence[Path]) -> str:
    """The name of the first file without its rank and endings."""
    return _OF_ONE_RANK.sub("", printable(paths[0].name).partition(".")[0]) or "trace"
