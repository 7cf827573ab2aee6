"""The events of a large trace by compiled code, as far as numbers say all that is wanted."""

from collections.abc import Iterable, Iterator

import numpy as np

from hvdprof.ingest.kineto import event_kernel as kernel
from hvdprof.ingest.kineto.trace_events import OPERATOR_WITHIN, WITHIN, Collected
from hvdprof.ingest.kineto.trace_records import TraceText, every_record, is_at_events
from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.machine_code import NotCompiledError, compiled, has_numba
from hvdprof.model.arrays import Uint64s

_ROOM = 1 << 14
"""Rows of a kind; more events than most windows of a trace hold."""
_ANYWHERE = 1 << 62
_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "correlation", "Sequence number",
         "Fwd thread id")  # fmt: skip
"""In the order of the fields."""

_CATEGORIES = {
    "cpu_op Operator": kernel.OF_OPERATOR,
    "user_annotation gpu_user_annotation": kernel.OF_ANNOTATION,
    "kernel Kernel": kernel.OF_KERNEL,
    "gpu_memcpy gpu_memset Memcpy Memset": kernel.OF_COPY,
    "cuda_runtime cuda_driver hip_runtime Runtime": kernel.OF_RUNTIME,
}
_OPERATORS = {
    "record_param_comms": kernel.READ_OPERATOR,
    "c10d::": kernel.READ_OPERATOR,
    "torch.distributed.ddp.reducer::copy_bucket_to_grad": kernel.READ_OPERATOR,
    "autograd::engine::evaluate_function": kernel.OF_AUTOGRAD,
}
_CALLS = [
    f'{by}{call}"' for by in ("cuda", "hip") for call in ("Free", "Malloc", "StreamSynchronize")
]


def _words(known: Iterable[tuple[str, int, int]]) -> Uint64s:
    """Texts with what they mean and how near they have to be, as ``take_events`` takes them."""
    room = 8 * (kernel.WORD_ROW - kernel.WORDS)
    rows = [
        [len(text), meaning, within, *np.frombuffer(text.encode().ljust(room, b"\0"), np.uint64)]
        for text, meaning, within in known
    ]
    return np.array(rows, np.uint64).ravel()


_KNOWN = (
    _words((f'"{key}"', field | len(key) + 2 << 8, _ANYWHERE) for field, key in enumerate(_KEYS)),
    _words(
        (f'{name}"', of, _ANYWHERE) for names, of in _CATEGORIES.items() for name in names.split()
    ),
    _words(
        [
            *((name, meaning, OPERATOR_WITHIN) for name, meaning in _OPERATORS.items()),
            *((name, kernel.OF_NCCL, WITHIN) for name in ("nccl", "rccl")),
            *((name, kernel.READ_RUNTIME, WITHIN) for name in _CALLS),
        ]
    ),
)


class EventRows:
    """Takes the events of a trace, window by window; those it returns have to be collected.

    Args:
        collected: Receives the others.
    """

    def __init__(self, collected: Collected) -> None:
        self._columns = {
            kernel.OPERATOR: collected.operators,
            kernel.AUTOGRAD: collected.autograd,
            kernel.COMPUTE: collected.compute,
            kernel.RUNTIME: collected.runtime,
        }
        self._rows = np.empty((kernel.NUM_KINDS, kernel.ROW_WIDTH, _ROOM), np.int64)
        self._state = np.zeros(kernel.STATE_WIDTH, np.int64)

    def __call__(self, chunks: Chunks, text: TraceText) -> Iterator[bytes]:
        """See ``Scan``."""
        state, place = self._state, 0
        # Loading compiled code takes longer than a small trace.
        is_large = chunks.offset + chunks.end >= chunks.chunk_bytes
        is_compiled = is_large and has_numba() and is_at_events(chunks, text)
        data = chunks.data
        words = np.ndarray(len(data) - 7, np.uint64, data.data, strides=(1,))
        state[kernel.IS_STOPPED] = is_compiled
        while state[kernel.IS_STOPPED]:
            try:
                place = compiled(kernel.take_events)(
                    (data, words), place, chunks.end, _KNOWN, self._rows.ravel(), state
                )
            except NotCompiledError:
                is_compiled = False
                break
            text.num_records += int(state[kernel.NUM_RECORDS])
            numbers = state[kernel.NUM_ROWS :].tolist()
            for kind, columns in self._columns.items():
                for column, row in zip(columns, self._rows[kind], strict=False):
                    column.frombytes(row[: numbers[kind]].tobytes())
            starts, ends = self._rows[kernel.TO_READ, :2, : numbers[kernel.TO_READ]].tolist()
            for start, end in zip(starts, ends, strict=True):
                yield data[start:end].tobytes()
        if is_compiled:
            chunks.forget(place)
        else:
            yield from every_record(chunks, text)
