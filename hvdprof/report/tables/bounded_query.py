"""A statement that runs in a process of its own, with bounds on memory and time.

DuckDB bounds its buffers alone: a function such as ``repeat`` allocates beside them, and looks for
no interrupt meanwhile. The system bounds a process, and ends it at once.

Tested by tests/report/tables/test_table_query.py.
"""

import multiprocessing
import os
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from hvdprof.errors import HvdprofError, InterruptedRunError, UsageError

Batches = Callable[[], Iterator[pa.Schema | pa.RecordBatch]]
"""Runs the statement: gives the schema of its rows, then the rows."""

_BESIDE_BYTES = 256_000_000
_STACK_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What a statement may take: ``memory_gb`` of 10^9 bytes, and ``timeout_s``."""

    memory_gb: float = 4.0
    timeout_s: float = 300.0

    @property
    def bytes(self) -> int:
        """The memory in bytes."""
        return round(self.memory_gb * 1e9)

    def memory_error(self) -> UsageError:
        """What is raised where the memory does not suffice."""
        return UsageError(
            f"The query needs more than {self.memory_gb:g} GB of memory.",
            hint="Ask for less, or set --memory-limit.",
        )


def run_bounded(batches: Batches, limits: QueryLimits) -> pa.Table:
    """The result of a statement.

    Args:
        batches: Called in the new process; no thread of the libraries that it uses may run before.
        limits: Of that process, and of the rows that it returns.

    Raises:
        UsageError: It needs more memory or time than the limits.
        InterruptedRunError: Ctrl-C.
        HvdprofError: ``batches`` raised it.
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_answer, args=(batches, limits, sender), daemon=True)
    with warnings.catch_warnings():
        # Arrow's threads, of which Python 3.12 warns, stand the fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    try:
        return _collected(receiver, limits)
    except KeyboardInterrupt as error:
        raise InterruptedRunError("The query was interrupted.") from error
    except EOFError as error:
        process.join()
        if process.exitcode is None or process.exitcode >= 0:
            raise
        # A signal ended it: DuckDB aborts where an allocation must not fail.
        raise limits.memory_error() from error
    finally:
        process.kill()
        process.join()
        receiver.close()


def _collected(receiver: Connection, limits: QueryLimits) -> pa.Table:
    """The rows, batch by batch: the limit of the process does not hold for those it returns."""
    deadline = time.monotonic() + limits.timeout_s
    schema, left = None, limits.bytes
    batches: list[pa.RecordBatch] = []
    while receiver.poll(max(deadline - time.monotonic(), 0.0)):
        received = receiver.recv()
        if received is None:
            return pa.Table.from_batches(batches, schema=schema)
        if isinstance(received, HvdprofError):
            raise received
        if schema is None:
            schema = received
            continue
        batches.append(received)
        left -= received.nbytes
        if left < 0:
            raise limits.memory_error()
    raise UsageError(
        f"The query took longer than {limits.timeout_s:g} s and was ended.",
        hint="Ask for less, or set --timeout.",
    )


def _answer(batches: Batches, limits: QueryLimits, sender: Connection) -> None:
    """Send what a statement gives: its schema, its rows and None; or what is wrong with it."""
    # The parent ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    most = _data_bytes() + limits.bytes + _BESIDE_BYTES + _STACK_BYTES * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))
    try:
        for batch in batches():
            sender.send(batch)
        sender.send(None)
    except HvdprofError as error:
        sender.send(error)
    except MemoryError:
        sender.send(limits.memory_error())


def _data_bytes() -> int:
    """The private memory that the process has by now."""
    data = Path("/proc/self/statm").read_text(encoding="ascii").split()[5]
    return int(data) * resource.getpagesize()
