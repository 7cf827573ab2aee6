"""A text file that may hold several things at once: each part goes to the reader that knows it."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from hvdprof.collect.host_facts import usable_cores
from hvdprof.errors import HvdprofError
from hvdprof.ingest.logs.autotune_log import Autotune
from hvdprof.ingest.logs.collective_timeouts import CollectiveTimeouts
from hvdprof.ingest.logs.deepspeed.deepspeed_comms import DeepSpeedComms
from hvdprof.ingest.logs.deepspeed.deepspeed_timers import DeepSpeedTimers
from hvdprof.ingest.logs.fr_trace_text import FrTraceText
from hvdprof.ingest.logs.horovod_log import HorovodLog
from hvdprof.ingest.logs.incidents import Incidents
from hvdprof.ingest.logs.megatron_log import MegatronLog
from hvdprof.ingest.logs.nccl_inspector import NcclInspector
from hvdprof.ingest.logs.nccl_tests.allreduce_bench_output import AllreduceBench
from hvdprof.ingest.logs.nccl_tests.nccl_tests_output import NcclTests
from hvdprof.ingest.logs.nemo_log import NemoLog
from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.logs.printed_rates import PrintedRates
from hvdprof.ingest.logs.process_stacks import ProcessStacks
from hvdprof.ingest.logs.ras_text import RasText
from hvdprof.ingest.logs.stall_warnings import StallWarnings
from hvdprof.ingest.logs.throughput_table import ThroughputTable
from hvdprof.ingest.nccl.own_processes import NcclProcesses
from hvdprof.ingest.recognise import Recognised
from hvdprof.ingest.text.line_filter import EVERY_LINE, any_of
from hvdprof.ingest.text.printed_lines import LogFile, Part
from hvdprof.ingest.text.text_chunks import Progress
from hvdprof.ingest.text.text_lines import BrokenEndError
from hvdprof.model.notes import Note, NoteCode
from hvdprof.rundir.regular_file import shown_name
from hvdprof.units import counted

PARTS: tuple[Callable[[str], PartReader], ...] = (
    HorovodLog,
    StallWarnings,
    Incidents,
    CollectiveTimeouts,
    RasText,
    ProcessStacks,
    FrTraceText,
    Autotune,
    NcclInspector,
    DeepSpeedComms,
    DeepSpeedTimers,
    MegatronLog,
    NemoLog,
    NcclTests,
    AllreduceBench,
    PrintedRates,
    ThroughputTable,
)
"""A reader for each kind of content; a new kind is a new entry."""
_NCCL = " NCCL "
_FIRST_LINES = 4
MOST_AT_ONCE = 8
"""Each log that is being read takes some 20 MB beside what it keeps."""


@dataclass(slots=True)
class PrintedFile:
    """What a text file holds; ``tables`` may have several frames of one table.

    ``nccl_processes`` are processes whose NCCL lines are in it, at most two of them.
    """

    num_lines: int = 0
    nccl_processes: set[tuple[str, str]] = field(default_factory=set)
    kinds: list[str] = field(default_factory=list)
    tables: list[tuple[str, pd.DataFrame]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def read_printed_files(
    files: Sequence[Recognised], jobs: int | None, progress: Callable[[Recognised, int], None]
) -> Iterator[PrintedFile | Exception]:
    """What each text file holds, in their order, or why it cannot be read.

    Args:
        files: The files; several are read at once, by threads.
        jobs: How many, at most eight; None for as many as there are cores.
        progress: Called with the file that is waited for, and how much of it has been read.
    """
    waited_for: Recognised | None = None
    is_over = False

    def read(file: Recognised) -> PrintedFile | Exception:
        def within(done: int, _size: int) -> None:
            if is_over:
                raise InterruptedError
            if file is waited_for and done < file.size_bytes:
                progress(file, done)

        try:
            return read_printed_file(file.path, progress=within, np=file.np)
        except (HvdprofError, OSError) as error:
            return error

    pool = ThreadPoolExecutor(min(jobs or usable_cores(), MOST_AT_ONCE))
    try:
        found = pool.map(read, files)
        for file in files:
            waited_for = file
            printed = next(found)
            progress(file, file.size_bytes)
            yield printed
    finally:
        # Nothing waits for the end of a large file after an interruption.
        is_over = True
        pool.shutdown(cancel_futures=True)


def read_printed_file(
    path: Path, *, progress: Progress | None = None, np: int | None = None
) -> PrintedFile:
    """Read a text file in one pass; nothing in it is an error.

    Args:
        path: The file, compressed or not.
        progress: Called with the bytes of the file read so far and its size.
        np: The number of ranks where the file states none; None where it is unknown.

    Raises:
        OSError: It cannot be read.
    """
    file = PrintedFile()
    source = LogFile(path, progress)
    readers = [part(shown_name(path)) for part in PARTS]
    for reader in readers:
        reader.state_np(np)
    inspector = next(reader for reader in readers if isinstance(reader, NcclInspector))
    rates = next(reader for reader in readers if isinstance(reader, PrintedRates))
    processes = NcclProcesses()
    patterns, searched, chosen = tuple[str, ...](), tuple[str, ...](), EVERY_LINE

    def wanted() -> str:
        nonlocal patterns, searched, chosen
        patterns = tuple([reader.wanted for reader in readers])
        searched = (*patterns, _NCCL) if len(processes.found) < 2 else patterns
        chosen = EVERY_LINE if EVERY_LINE in patterns else any_of(searched)
        return chosen

    def ahead(part: Part, place: int) -> int:
        behind = processes.read_ahead(part, place, patterns)
        # Until every reader has said what it wants, each gets all lines.
        if behind > place or chosen == EVERY_LINE:
            return behind
        behind = inspector.read_ahead(part, place)
        return behind if behind > place else rates.read_ahead(part, place, chosen, searched)

    try:
        for tagged in source.lines(wanted, ahead):
            line = tagged.without_inner_tags()
            processes.take(line)
            # A tag inside may have hidden what a reader wants. At the first lines readers change
            # what they want: each search would be for one line.
            is_searched = line is tagged and line.number > _FIRST_LINES
            takers = source.takers(patterns) if is_searched else range(len(readers))
            for reader in [readers[number] for number in takers]:
                try:
                    reader.take(line)
                except OverflowError:
                    reader.num_absurd += 1
    except BrokenEndError as error:
        file.notes.append(Note(NoteCode.CUT_SHORT, str(error)))
    file.nccl_processes = processes.found
    _end(file, source, readers)
    return file


def _end(file: PrintedFile, source: LogFile, readers: Sequence[PartReader]) -> None:
    for reader in readers if source.is_cut else ():
        reader.end_within(source.num_lines)
    file.num_lines = source.num_lines
    file.notes += source.notes
    for reader in readers:
        file.kinds += [kind for kind in reader.kinds() if kind not in file.kinds]
        file.notes += reader.notes()
        file.tables += [(name, frame) for name, frame in reader.tables().items() if len(frame)]
    if number := sum(reader.num_absurd for reader in readers):
        text = f"{counted(number, 'row')} omitted: a number is too large or too small"
        file.notes.append(Note(NoteCode.OMITTED, text, number=number))
