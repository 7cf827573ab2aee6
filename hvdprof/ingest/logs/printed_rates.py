"""Reads the rates that jobs print, by the declared formats, with the runs that they belong to.

tf_cnn_benchmarks: every rank prints its own estimate of the total of all ranks in the end: these
are averaged over the ranks of a run, never summed.

Tested in ``tests/ingest/logs/test_printed_rates.py``.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hvdprof.ingest.logs.iteration_log import WANTED_SETTINGS, IterationLog
from hvdprof.ingest.rates.alike_lines import OF_BARS, AlikeLines, bars_of
from hvdprof.ingest.rates.formats import BARS, OTHER, RATE_FORMATS, TQDM, kinds_of
from hvdprof.ingest.rates.job_settings import SETTING_LINES, names_model, np_of_name
from hvdprof.ingest.rates.rate_format import (
    ITERATIONS,
    STEP,
    TOTAL,
    FoundRate,
    Printed,
    RateLines,
    is_contradicted,
    rates_in,
)
from hvdprof.ingest.rates.rate_job import RateColumns, RateJob
from hvdprof.ingest.text.found_lines import Patterns
from hvdprof.ingest.text.line_filter import EVERY_LINE, anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.ingest.text.printed_lines import Part
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.log_tables import PRINTED_RATES, THROUGHPUT
from hvdprof.model.tables.printed_tables import TRAINING_ITERATIONS
from hvdprof.units import counted

_WANTED = anywhere(*(kind.mark for kind in RATE_FORMATS), *SETTING_LINES, *WANTED_SETTINGS)
_UNNAMED = "throughput lines"
_FEWEST_DRAWN = 3
"""A bar of fewer draws shows something that is loaded, not trained."""
_SHORTEST_WRAPPED = 60
_MOST_PIECES = 4
_LONGEST = 10_000
"""Characters of a line from which it holds no rate: progress bars are lines of their own."""


class PrintedRates(IterationLog):
    """Every printed rate as PRINTED_RATES, and the throughput of each job as THROUGHPUT.

    Lines on iterations are TRAINING_ITERATIONS.
    """

    TABLES = (PRINTED_RATES, THROUGHPUT, TRAINING_ITERATIONS)

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._job = RateJob(0, np_of_name(file))
        self._tools: dict[str, None] = {}
        self._iterated: dict[str, None] = {}
        self._pieces: list[str] = []
        self._open: list[FoundRate] = []
        self._alike = AlikeLines(_WANTED)
        self._draws: list[FoundRate] = []
        self._bars: list[pd.DataFrame] = []
        self._num_unplaced = self._num_contradicted = 0
        self._notes: list[Note] = []

    @property
    def wanted(self) -> str:
        """Rates, and what headers say; every line behind the beginning of a wrapped one."""
        return EVERY_LINE if self._pieces else _WANTED

    def state_np(self, np: int | None) -> None:
        """The name of the file counts less than what the user states."""
        super().state_np(np)
        self._job.np_of_name = np or self._job.np_of_name

    def read_ahead(self, part: Part, place: int, wanted: str, patterns: Patterns) -> int:
        """Read lines from a place on, as ``AlikeLines.read_ahead``."""
        # Behind a total, any line may begin another run.
        if self._job.totals or any(found.kind.scope == TOTAL for found in self._open):
            return place
        behind, found = self._alike.read_ahead(part, place, wanted, patterns)
        if behind > place:
            self._add_open()
            self._keep_bars([lines for kind, lines in found if kind in BARS])
            self._add_lines([lines for lines in found if lines[0] not in BARS])
        return behind

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        self._add_open()
        text = line.text
        if len(text) > _LONGEST:
            self._pieces = []
            return
        if self._take_rate(line, text):
            self._pieces = []
        elif kinds_of(text):
            self._pieces = [text] * (len(text) >= _SHORTEST_WRAPPED)
        else:
            if self._pieces:
                self._take_piece(line)
            if names_model(text) and self._job.is_seen(line.rank):
                self._begin_job()
            self._job.settings.take(text)
            self.take_setting(text)

    def end_within(self, number: int) -> None:
        """Leave out a number at the end of a line that is cut there: it may lack digits."""
        if self._open and self._open[0].line == number:
            self._open = []
            text = "1 rate omitted: the file ends within its line"
            self._notes.append(Note(NoteCode.OMITTED, text, number=1))

    def kinds(self) -> list[str]:
        """What printed the rates in the file."""
        self.finish()
        own = [f"{tool} log" for tool in self._iterated]
        return own + [f"{tool} output" if tool != OTHER else _UNNAMED for tool in self._tools]

    def notes(self) -> list[Note]:
        """Totals whose number of ranks is not known, and lines that were left out."""
        self.finish()
        notes = list(self._notes)
        if self._num_unplaced:
            text = f"{counted(self._num_unplaced, 'total')} without a number of ranks"
            notes.append(Note(NoteCode.NO_RANKS, text, number=self._num_unplaced))
        if number := self._num_contradicted:
            text = f"{counted(number, 'line')} omitted: its numbers contradict each other"
            notes.append(Note(NoteCode.OMITTED, text, number=number))
        return notes

    def _take_piece(self, line: PrintedLine) -> None:
        """Read a record that a terminal broke anywhere, or a logger between words."""
        self._pieces.append(line.text)
        wholes = ("".join(self._pieces), " ".join(map(str.strip, self._pieces)))
        is_read = any(self._take_rate(line, whole) for whole in wholes)
        if is_read or len(self._pieces) == _MOST_PIECES:
            self._pieces = []

    def _take_rate(self, line: PrintedLine, text: str) -> bool:
        for kind in kinds_of(text):
            # Writers glue lines, and bars lose the returns between their draws.
            found = list(kind.pattern.finditer(text))
            for match in found:
                self._take_match(
                    FoundRate(line.number, line.rank, kind, match.groupdict()), match.end(), text
                )
            if found:
                return True
        return False

    def _take_match(self, found: FoundRate, end: int, text: str) -> None:
        if found.kind.tool == TQDM:
            self._draws.append(found)
        elif end == len(text):
            self._open.append(found)
        else:
            self._add(found)

    def _add_open(self) -> None:
        found, self._open = self._open, []
        for one in found:
            self._add(one)

    def finish(self) -> None:
        """Add bars that no other rate followed, and end the run of the job."""
        self._add_open()
        self._keep_bars([])
        bars, self._bars = self._bars, []
        if bars and not self._tools:
            num_iterations, found = bars_of(pd.concat(bars, ignore_index=True))
            if num_iterations >= _FEWEST_DRAWN:
                self._tools[TQDM] = None
                self._add_lines(found)
        self._close_job()

    def _add(self, found: FoundRate) -> None:
        kind, stated = found.kind, found.stated
        if kind.scope == ITERATIONS:
            self._add_iteration(found)
            return
        rates = list(rates_in(kind, found.number))
        if is_contradicted(found.number, rates):
            self._num_contradicted += 1
            return
        self._tools.setdefault(kind.tool)
        if self._is_of_next_job(found):
            self._begin_job()
        job = self._job
        job.ranks.add(found.rank)
        if np := stated.get("np"):
            job.settings.said["np"] = np
        for one in rates:
            self._add_row(found, *job.counted(kind, one))

    def _keep_bars(self, found: Sequence[pd.DataFrame]) -> None:
        """Keep bars that are read at once behind those that were read one by one."""
        if self._draws:
            rows = [(one.line, one.rank, *map(one.number, OF_BARS)) for one in self._draws]
            drawn = pd.DataFrame(rows, columns=["line", "rank", *OF_BARS], dtype=float)
            self._bars.append(drawn.fillna({"rank": -1}))
            self._draws = []
        if found:
            self._bars.append(pd.concat(found).sort_values("order", kind="stable"))

    def _add_lines(self, found: Sequence[RateLines]) -> None:
        """Add the rates of lines, as ``_add`` does those of one."""
        job, sound = self._job, list[RateLines]()
        for kind, lines in found:
            rates = list(rates_in(kind, lines.get))
            is_wrong = np.broadcast_to(is_contradicted(lines.get, rates), len(lines))
            self._num_contradicted += int(is_wrong.sum())
            if not is_wrong.all():
                sound.append((kind, lines[~is_wrong] if is_wrong.any() else lines))
        if not sound:
            return
        columns = RateColumns.of(sound, job)
        shared = {"job": job.number, "np": job.np}
        rows = [
            self.row(rank=rank, tool=kind.tool, scope=kind.scope, unit=unit, per=per, **shared)
            for kind, unit, per, _, rank in columns.forms
        ]
        self._tools.update(dict.fromkeys(kind.tool for kind, *_ in columns.forms))
        self.add_many(rows, columns.form, columns.numbers)
        columns.add_to(job)

    def _add_iteration(self, found: FoundRate) -> None:
        kind, self.series = found.kind, found.kind.series
        self._batch = round(found.number("batch") or 0) or self._batch
        step_ms = found.number("step_ms") or 1e3 * (found.number("step") or 0)
        tflops = found.number("tflops")
        printed = float("nan") if tflops is None else tflops
        if self.add_iteration(found.line, found.iteration or 0, step_ms, printed):
            self._iterated.setdefault(kind.tool)

    def _add_row(self, found: FoundRate, one: Printed[float], per: str) -> None:
        kind, job = found.kind, self._job
        np, step, spread = job.np, one.step, float(found.stated.get("spread") or "nan")
        self.add(
            found.line,
            rank=found.rank,
            job=job.number,
            tool=kind.tool,
            scope=kind.scope,
            iteration=found.iteration,
            rate=one.rate,
            unit=one.unit,
            per=per,
            mean_of=(found.iteration or 0) + kind.from_zero if one.running_mean else None,
            step_ns=None if step is None else round(step * 1e9),
            data_ns=None if one.data is None else round(one.data * 1e9),
            spread=spread,
            np=np,
        )
        job.last_line, job.has_total = found.line, job.has_total or kind.scope == TOTAL
        if kind.scope == STEP:
            job.add_steps((kind.tool, one.unit, per, one.running_mean), found.rank, [one.rate])
        elif kind.scope == TOTAL and np:
            job.totals.append((kind.tool, np, found.line, one.rate, spread))
        elif kind.scope == TOTAL:
            self._num_unplaced += 1

    def _is_of_next_job(self, found: FoundRate) -> bool:
        """Whether a rate belongs to another run, whose header may be missing."""
        totals, tool = self._job.totals, found.kind.tool
        if not totals or not self._job.is_seen(found.rank):
            return False
        np = found.stated.get("np")
        if np or OTHER in (tool, totals[-1][0]):
            return tool != totals[-1][0] or np != str(totals[-1][1])
        return found.kind.scope == STEP and found.iteration in (0, 1)

    def _begin_job(self) -> None:
        self._close_job()
        self._job = RateJob(self._job.number + 1, self._job.np_of_name)

    def _close_job(self) -> None:
        job = self._job
        found = list(job.throughputs())
        for one in found:
            values = one._asdict()
            line, rate = values.pop("line"), values.pop("rate")
            self.add_to(THROUGHPUT, line, samples_per_s=rate, **values)
        if job.ends_early():
            ranks = f" with {counted(job.np, 'rank')}" if job.np else ""
            what = ": the rates of its steps count" if found else ""
            text = f"the total of a run{ranks} is not in the file{what}"
            self._notes.append(Note(NoteCode.ENDED_EARLY, text))
        job.totals, job.steps = [], {}
