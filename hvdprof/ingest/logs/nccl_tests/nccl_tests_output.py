"""The tables that programs of nccl-tests print, in every column layout.

The line of column names decides the layout: ``redop`` and ``root`` are there or not, checked by
``error`` or by ``#wrong``, out of place and in place or one of them. Other writers cut rows: a row
is put together from its head (size, count, type) and the measurements that follow it. Tables of
other tools look alike: a row counts only where ``algbw`` is the size divided by the time.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from hvdprof.ingest.logs.nccl_tests.nccl_tests_rows import (
    TYPES,
    PartialRow,
    RowLayout,
    TestedRun,
    WrappedNames,
    layout_of_names,
    layout_of_row,
    runs_text,
)
from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.printed_tables import NCCL_TEST_RUNS, NCCL_TESTS
from hvdprof.units import counted

_BEGIN = re.compile(r"nThreads?:? \d+,? nGpus:? \d+ minBytes")
_DEVICE = re.compile(
    r"Rank\s+(?P<rank>\d{1,7})\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(?P<host>\S+)\s+device\s+\d+ "
    r"\[[^\]]*\]\s+(?P<device>.+)"
)
_OPERATION = re.compile(r"(?<!concluded: )\b([a-z]+(?:_[a-z]+)*)_perf\b")
_CONCLUDED = re.compile(r"concluded: ([a-z]+(?:_[a-z]+)*)_perf\b")
_VERSION = re.compile(r"nccl-tests version (\S+)")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(\d+(?:\.\d+)?)")
_FAILED = re.compile(r"Test (?:NCCL |CUDA )?failure ")
_IN_PLACE_FIRST = re.compile(r"^#?\s*in-place\s+out-of-place\s*$")
_OF_INTEREST = re.compile(
    r"nGpus|algbw|busbw|size .*time|out-of-place|_perf|nccl-tests|Avg bus|Pid|Test |"
    r"^\s*[\d_]+\s|^\s*\d*\.\d+\s"
)
_HEADERS = anywhere(
    r"nGpus|algbw|busbw|size .*time|out-of-place|_perf|nccl-tests|Avg bus|Pid|Test "
)
_FIRST = rf"{_HEADERS}|[0-9]\s+{TYPES}\s"
_ROWS = rf"{_HEADERS}|[0-9_]\s+(?:[0-9.N]|{TYPES})|^\s*[0-9_.]+\s"


class NcclTests(PartReader):
    """Runs and rows of nccl-tests as NCCL_TEST_RUNS and NCCL_TESTS."""

    TABLES = (NCCL_TEST_RUNS, NCCL_TESTS)
    KIND = "nccl-tests output"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._runs: list[TestedRun] = []
        self._operation = ""
        self._version = ""
        self._partial: PartialRow | None = None
        self._num_headless = 0
        self._in_place_first = False
        self._names = WrappedNames()
        self._last: PrintedLine | None = None

    @property
    def wanted(self) -> str:
        """What opens a run, and further rows and facts of an open one."""
        return _ROWS if self._runs else _FIRST

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        self._last = line
        if not _OF_INTEREST.search(line.text):
            return
        if self._take_opening(line) or not (self._runs or self._open_headless(line)):
            return
        run = self._runs[-1]
        if self._take_facts(run, line.text, line.number):
            return
        if run.layout is None and (layout := layout_of_row(line.text)) is not None:
            run.layout = layout
            self._num_headless += 1
        if run.layout is not None:
            text = line.text.partition("|")[0] if run.layout.is_beside else line.text
            self._take_row(run, run.layout, text, line.number)

    def end_within(self, number: int) -> None:
        """A list of devices may lack some, and a row that is cut in its head counts as one."""
        if self._runs and self._last is not None and self._last.number == number:
            self._runs[-1].end_within(self._last, is_row=self._partial is not None)

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """NCCL_TEST_RUNS and NCCL_TESTS."""
        self._finish_rows()
        for run in self._runs:
            self._add_run(run)
        return super().tables()

    def kinds(self) -> list[str]:
        """``nccl-tests output`` where there is a run."""
        return [self.KIND] if self._runs else []

    def notes(self) -> list[Note]:
        """Rows that could not be put together, and runs that failed."""
        self._finish_rows()
        damaged = sum(run.num_damaged for run in self._runs)
        refused = sum(run.num_refused for run in self._runs)
        failed = [run.line for run in self._runs if run.failed]
        empty = [run.line for run in self._runs if not (run.failed or run.num_sizes)]
        beside = [run.line for run in self._runs if run.layout and run.layout.is_beside]
        notes = []
        if beside:
            text = f"the table beside that of {runs_text(beside)} is omitted (right of `|`)"
            notes.append(Note(NoteCode.OMITTED, text))
        if damaged:
            text = f"{counted(damaged, 'row')} of nccl-tests omitted: cut"
            notes.append(Note(NoteCode.DAMAGED, text, number=damaged))
        if refused:
            why = "algbw is not size divided by time, as in nccl-tests"
            text = f"{counted(refused, 'row')} omitted: {why}"
            notes.append(Note(NoteCode.OMITTED, text, number=refused))
        if self._num_headless:
            rows = f"rows of nccl-tests from line {self._runs[0].line} on"
            notes.append(Note(NoteCode.DAMAGED, f"{rows} stand without column names"))
        if failed:
            text = f"nccl-tests failed in {runs_text(failed)}"
            notes.append(Note(NoteCode.TEST_FAILED, text, number=len(failed)))
        if empty:
            text = f"the file holds no row of nccl-tests from {runs_text(empty)}"
            notes.append(Note(NoteCode.TEST_FAILED, text, number=len(empty)))
        if cut := [run.line for run in self._runs if run.is_list_cut]:
            notes.append(Note(NoteCode.CUT_SHORT, f"the list of ranks is cut in {runs_text(cut)}"))
        return notes

    def _take_opening(self, line: PrintedLine) -> bool:
        names, had_some = self._names.take(line.text, line.number)
        if names:
            self._give_up_row()
            run = self._runs[-1] if had_some else self._run_of_columns(line.number)
            run.layout = layout_of_names(names, self._in_place_first)
            return True
        if "out-of-place" in line.text:
            self._in_place_first = _IN_PLACE_FIRST.match(line.text) is not None
            return True
        if _BEGIN.search(line.text):
            self._open(line.number)
            return True
        begun = self._runs and self._runs[-1].layout is None
        if not begun and "Pid" in line.text and _DEVICE.search(line.text):
            self._open(line.number)
            return False
        version, operation = _VERSION.search(line.text), _OPERATION.search(line.text)
        if version is not None:
            self._version = version.group(1)
        if operation is not None:
            self._operation = operation.group(1)
        return version is not None or operation is not None

    def _run_of_columns(self, number: int) -> TestedRun:
        """The run whose columns a line names; processes that print at once each name them."""
        waiting = [run for run in self._runs if run.layout is None]
        if not waiting or (self._runs[-1].layout is not None and self._runs[-1].num_sizes):
            self._open(number)
            return self._runs[-1]
        return waiting[-1]

    def _open(self, number: int) -> None:
        self._give_up_row()
        self._runs.append(TestedRun(len(self._runs), number, self._operation, self._version))
        self._operation, self._version = "", ""

    def _open_headless(self, line: PrintedLine) -> bool:
        """Whether a row that no line of column names precedes opens a run."""
        layout = layout_of_row(line.text)
        if layout is not None:
            self._open(line.number)
            self._runs[-1].layout = layout
            self._num_headless += 1
        return layout is not None

    def _take_facts(self, run: TestedRun, text: str, number: int) -> bool:
        if concluded := _CONCLUDED.search(text):
            run.operation = run.operation or concluded[1]
        device, average = _DEVICE.search(text), _AVERAGE.search(text)
        if device is not None:
            run.hosts.add(device["host"])
            run.highest_rank = max(run.highest_rank, int(device["rank"]))
            run.last_listed = number
            run.device = run.device or device["device"].strip()
        if average is not None:
            run.average = float(average.group(1))
            run.ended = True
        run.failed |= (failed := _FAILED.search(text) is not None)
        return device is not None or average is not None or failed

    def _take_row(self, run: TestedRun, layout: RowLayout, text: str, number: int) -> None:
        head = layout.head.match(text)
        # Numbers alone are a head where measurements follow.
        if head is not None and (layout.is_head_certain or layout.measured.match(text, head.end())):
            self._give_up_row()
            self._partial = PartialRow(number, head.groupdict())
            text = text[head.end() :]
        if self._partial is not None and self._partial.take(text, layout):
            self._add(run, layout, self._partial)
            self._partial = None

    def _run_of_row(self, run: TestedRun, row: PartialRow) -> TestedRun:
        """The run of a finished row; a row behind the average belongs to another run."""
        if run.ended:
            run = TestedRun(len(self._runs), row.line, self._operation, self._version, run.layout)
            self._operation, self._version = "", ""
            self._runs.append(run)
        return run

    def _give_up_row(self) -> None:
        if self._partial is not None and self._runs:
            run = self._runs[-1]
            if self._partial.measured:
                run.half_rows.append(self._partial)
            else:
                run.num_damaged += 1
        self._partial = None

    def _finish_rows(self) -> None:
        """Rows of half the columns: of a program that measures one of both, or cut."""
        self._give_up_row()
        for run in list(self._runs):
            halves, run.half_rows = run.half_rows, []
            if run.layout is not None and not run.num_sizes and len(halves) > 1:
                alone = replace(run.layout, places=run.layout.places[:1])
                # They came before the average that ended the run.
                run.ended = False
                for row in halves:
                    self._add(run, alone, row)
            else:
                run.num_damaged += len(halves)

    def _add(self, run: TestedRun, layout: RowLayout, row: PartialRow) -> None:
        if not row.is_consistent:
            run.num_refused += 1
            return
        run = self._run_of_row(run, row)
        run.num_sizes += 1
        count, root = row.head.get("count"), row.head.get("root")
        for in_place, found in zip(layout.places, row.measured, strict=True):
            checked = layout.check and found["check"] != "N/A"
            wrong = {layout.check: float(found["check"])} if checked else {}
            num_wrong = int(wrong["num_wrong"]) if "num_wrong" in wrong else None
            algbw, bandwidth = (
                float("nan" if layout.is_issue else found[name]) for name in ("alg", "bus")
            )
            if num_wrong is not None:
                run.num_wrong = (run.num_wrong or 0) + num_wrong
            if bandwidth == bandwidth and not run.peak[0] >= bandwidth:
                run.peak, run.peak_row = (bandwidth, row.size_bytes), row
            self.add_to(
                NCCL_TESTS,
                row.line,
                run=run.number,
                size_bytes=row.size_bytes,
                count=int(count) if count else None,
                dtype=row.head.get("dtype") or "",
                redop=row.head.get("redop") or "",
                root=int(root) if root else None,
                in_place=in_place,
                time_ns=round(float(found["time"]) * 1000),
                algbw_gb_s=algbw,
                busbw_gb_s=bandwidth,
                num_wrong=num_wrong,
                max_error=wrong.get("max_error", float("nan")),
            )

    def _add_run(self, run: TestedRun) -> None:
        self.add(
            run.line,
            run=run.number,
            operation=run.operation,
            np=run.np,
            num_hosts=len(run.hosts) if run.hosts else None,
            device=run.device,
            version=run.version,
            num_sizes=run.num_sizes,
            num_damaged=run.num_damaged,
            num_refused=run.num_refused,
            peak_busbw_gb_s=run.peak[0],
            peak_size_bytes=run.peak[1],
            num_wrong=run.num_wrong,
            avg_busbw_gb_s=float("nan") if run.layout and run.layout.is_issue else run.average,
            failed=run.failed,
        )
