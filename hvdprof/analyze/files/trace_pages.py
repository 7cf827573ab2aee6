"""The page of profiler traces beside other files: one for the set, as the verdict is of all.

Tested in ``tests/ingest/kineto/test_traced_run.py``.
"""

from collections.abc import Sequence

from hvdprof.model.file_page import PROFILER_TRACE, Fact, FilePage
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.run import Run


def is_used_trace(row: FrameRow) -> bool:
    """Whether a row of FILES is a trace that the run is made of."""
    return bool(row["num_rows"]) and str(row["kind"]).startswith(PROFILER_TRACE)


def trace_pages(run: Run, files: Sequence[FrameRow]) -> list[FilePage]:
    """One page for the traces of a job; none without any.

    Args:
        run: The run that the traces make up.
        files: Rows of FILES that are traces of it.
    """
    if not files:
        return []
    number = len(files)
    more = f" and {number - 1} more" if number > 1 else ""
    size = run.manifest.passes[0].size
    return [
        FilePage(
            file=f"{files[0]['file']}{more}",
            kind=str(files[0]["kind"]) if number == 1 else f"{number} {PROFILER_TRACE}s",
            size_bytes=sum(int(row["size_bytes"]) for row in files),
            facts=(
                Fact("num_ranks", "ranks", size),
                *([Fact("num_traces", "ranks with a trace", number)] if number < size else []),
                Fact("num_events", "events", sum(int(row["num_rows"]) for row in files)),
            ),
            unanswered=(),
        )
    ]
