"""Communication tables of a large timeline, made piece by piece and cached beside the others.

Tested in ``tests/api/test_tables.py``.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pandas as pd

from hvdprof.analyze.communication.collectives import collectives
from hvdprof.analyze.communication.link_fit import link_fit
from hvdprof.analyze.communication.tensor_sums import TensorSums
from hvdprof.ingest.load import cached_pieces
from hvdprof.model.cached_rows import CachedRows
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.schema import Table
from hvdprof.model.tables.collective_tables import COLLECTIVES, LINK_FIT
from hvdprof.model.tables.tensor_tables import STEP_COMMUNICATION, TENSORS
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from hvdprof.model.tables.waiting_tables import COLLECTIVE_ARRIVALS
from hvdprof.report.tables.table_files import TableRows

_EXECUTIONS_AT_ONCE = 4096
"""Bounds memory: an execution has many uses, whose names are text while they are joined to it."""

Progress = Callable[[int, int], None]

_FOR_FIT = ("pass_id", "segment", "collective", "size_bytes", "transfer_ns", "warmup")


def cached_communication(
    file: str, cached: Mapping[str, CachedRows], num_ranks: int | None, progress: Progress
) -> dict[str, TableRows]:
    """COLLECTIVES, LINK_FIT, TENSORS and STEP_COMMUNICATION by name.

    They equal what ``analyze.communication`` makes in memory.

    Args:
        file: The path of the timeline as the caller wrote it, which is the ``pass_id`` of its rows.
        cached: Its tables by name.
        num_ranks: Ranks of the job; None where the timeline does not show them.
        progress: Called with the executions done and the executions in all; never where the tables
            are in the cache already.
    """
    ranks_of = {} if num_ranks is None else {(file, ""): num_ranks}
    pieces = functools.partial(_pieces, cached, ranks_of, progress)
    source = cached[EXECUTIONS.name].source
    rows = cached_pieces(COLLECTIVES, source, pieces)
    if rows is None:
        whole = COLLECTIVES.frame(pd.concat(list(pieces())))
        fit = link_fit(whole, ranks_of)
        return {COLLECTIVES.name: whole, LINK_FIT.name: fit, **_sums(source, cached)}
    measured = [piece[~piece["warmup"]] for piece in rows.frames(_FOR_FIT)]
    fit = link_fit(pd.concat(measured), ranks_of)
    return {COLLECTIVES.name: rows, LINK_FIT.name: fit, **_sums(source, cached)}


def _sums(source: Path, cached: Mapping[str, CachedRows]) -> dict[str, TableRows]:
    """TENSORS and STEP_COMMUNICATION, of one pass over the rows where they are not in the cache."""

    @functools.cache
    def made() -> TensorSums:
        sums = TensorSums()
        for executions, uses in _paired(cached):
            sums.add(executions, uses)
        return sums

    def from_cache(table: Table, rows: Callable[[], pd.DataFrame]) -> TableRows:
        cached_rows = cached_pieces(table, source, lambda: iter([rows()]))
        return rows() if cached_rows is None else cached_rows

    return {
        TENSORS.name: from_cache(TENSORS, lambda: made().tensors()),
        STEP_COMMUNICATION.name: from_cache(STEP_COMMUNICATION, lambda: made().steps()),
    }


def _pieces(
    cached: Mapping[str, CachedRows], ranks_of: Mapping[LaunchKey, int], progress: Progress
) -> Iterator[pd.DataFrame]:
    """COLLECTIVES piece by piece."""
    done = 0
    for executions, fused in _paired(cached):
        yield collectives(executions, fused, COLLECTIVE_ARRIVALS.empty(), ranks_of, {})
        done += len(executions)
        progress(done, len(cached[EXECUTIONS.name]))


def _paired(cached: Mapping[str, CachedRows]) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Some executions at a time with their uses, which are in the same order."""
    uses = cached[TENSOR_USES.name].frames()
    held = [next(uses)]
    for executions in _cut(cached[EXECUTIONS.name].frames()):
        first, last = executions["fusion_id"].min(), executions["fusion_id"].max()
        while held[-1]["fusion_id"].max() < last and (more := next(uses, None)) is not None:
            held.append(more)
        yield (
            executions,
            pd.concat([piece[piece["fusion_id"].between(first, last)] for piece in held]),
        )
        held = held[-1:]


def _cut(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        for start in range(0, max(len(frame), 1), _EXECUTIONS_AT_ONCE):
            yield frame[start : start + _EXECUTIONS_AT_ONCE]
