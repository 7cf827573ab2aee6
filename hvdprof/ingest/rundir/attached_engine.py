"""What reduces the gradients of an attached job, as far as its files say.

Tested in ``tests/ingest/rundir/test_attached_engine.py``.
"""

from collections.abc import Sequence
from pathlib import Path

from hvdprof.ingest.flight_recorder.dump_tables import SOURCE as FLIGHT_RECORDER
from hvdprof.ingest.logs.printed_file import read_printed_file
from hvdprof.ingest.sources.listing import unreadable
from hvdprof.model.cell_key import UNKNOWN
from hvdprof.model.run import Run
from hvdprof.model.tables.log_tables import AUTOTUNE, HOROVOD_LOG, STALLS
from hvdprof.model.tables.printed_tables import (
    COMMS_LOG,
    RANK_TIMERS,
    STRAGGLER_REPORTS,
    TRAINING_ITERATIONS,
)
from hvdprof.model.tables.rank_collective_tables import (
    COLLECTIVE_PROGRESS,
    COLLECTIVE_TIMEOUTS,
    INSPECTOR,
    NSYS,
    RANK_COLLECTIVES,
)
from hvdprof.rundir.plan import COLLECTIVES_ENGINE, HOROVOD_ENGINE

_OF_HOROVOD = {HOROVOD_LOG.name, STALLS.name, AUTOTUNE.name}
_OF_TORCH = {
    COLLECTIVE_TIMEOUTS.name,
    RANK_COLLECTIVES.name,
    TRAINING_ITERATIONS.name,
    RANK_TIMERS.name,
    STRAGGLER_REPORTS.name,
    COMMS_LOG.name,
}
"""Tables that PyTorch itself, Megatron, NeMo and DeepSpeed give."""


def attached_engine(
    *, timelines: Sequence[Path], outputs: Sequence[Path], recordings: Run | None
) -> str:
    """``horovod``, ``collectives`` for torch.distributed, or ``unknown`` where no file says it.

    NCCL's logs, exports of Nsight Systems and reports of NCCL say nothing: any engine uses NCCL.

    Args:
        timelines: Horovod timelines.
        outputs: What the job printed.
        recordings: What the files of other recorders hold.

    Raises:
        UnreadableInputError: An output cannot be read.
    """
    if timelines:
        return HOROVOD_ENGINE
    tables = {name for path in outputs for name in _tables_of(path)}
    if recordings is not None:
        tables |= set(recordings.row_counts)
        recorders = set(recordings.table(RANK_COLLECTIVES.name)["source"].astype(str))
        # Any engine uses NCCL.
        tables -= {RANK_COLLECTIVES.name} if recorders <= {INSPECTOR, NSYS} else set()
        # A rank that hangs before its first collective has dumped its groups alone.
        sources = recordings.table(COLLECTIVE_PROGRESS.name)["source"]
        tables |= {RANK_COLLECTIVES.name} if sources.eq(FLIGHT_RECORDER).any() else set()
    of_horovod, of_torch = (not tables.isdisjoint(own) for own in (_OF_HOROVOD, _OF_TORCH))
    if of_horovod == of_torch:
        return UNKNOWN
    return HOROVOD_ENGINE if of_horovod else COLLECTIVES_ENGINE


def _tables_of(path: Path) -> list[str]:
    try:
        return [name for name, _ in read_printed_file(path).tables]
    except OSError as error:
        raise unreadable(path, error) from error
