"""What Megatron prints of iterations, of timers over the ranks and of stragglers.

An iteration line states the mean since the line before.
"""

import re
from collections.abc import Mapping

import pandas as pd

from hvdprof.ingest.logs.iteration_log import LONGEST_NS, WANTED_SETTINGS, IterationLog
from hvdprof.ingest.text.line_filter import EVERY_LINE, anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.log_tables import THROUGHPUT
from hvdprof.model.tables.training_log_tables import (
    MEGATRON_SERIES,
    RANK_TIMERS,
    STRAGGLER_REPORTS,
    TRAINING_ITERATIONS,
)

_ITERATION = re.compile(r"\biteration +(\d{1,12})/ *\d{1,12} \|")
_ELAPSED = re.compile(r"elapsed time per iteration \(ms\): (\d+(?:\.\d+)?) \|")
_BATCH = re.compile(r"global batch size: +(\d{1,9}) \|")
_TFLOPS = re.compile(r"throughput (?:per GPU )?\(TFLOP/s(?:ec)?/GPU\): (\d+(?:\.\d+)?) \|")
_HEAD = re.compile(r"((?:\(min, max\)|max) time|times) across ranks \(ms\):\s*$")
_TIMER = re.compile(r"^\s*(\S[^.:]{0,80}?) \.*: \(?(\d+(?:\.\d+)?)(?:, (\d+(?:\.\d+)?)\))?\s*$")
_TIMER_NAME = re.compile(r"^\s*([\w/-]{1,80}):\s*$")
_OF_RANK = re.compile(r"^\s*rank +(\d{1,7}): (\d+(?:\.\d+)?)\s*$")
_EXTREME = re.compile(
    r"\b(Mn|Mx)(Rtt|Pwr|Tmp|Utl|Clk|DRtt|Etpt)/Rnk: (\d+(?:\.\d+)?)(ms|us|W|C|%|MHz|TF)/(\d{1,7})\b"
)
_WANTED = anywhere(
    "elapsed time per iteration", r"across ranks \(ms\):", "MnRtt/Rnk: ", *WANTED_SETTINGS
)


class MegatronLog(IterationLog):
    """Iterations, timers and straggler reports of one job."""

    TABLES = (TRAINING_ITERATIONS, RANK_TIMERS, STRAGGLER_REPORTS, THROUGHPUT)
    KIND = "Megatron log"
    SERIES = MEGATRON_SERIES

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._iteration: int | None = None
        self._in_timers = False
        self._timer = ""
        self._of_ranks: list[tuple[float, int]] = []

    @property
    def wanted(self) -> str:
        """Lines with one of the heads; every line within a list of timers."""
        return EVERY_LINE if self._in_timers else _WANTED

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        text = line.text
        if self._in_timers and self._take_timer(line):
            return
        self._close_timer(line.number)
        self._in_timers = False
        if "elapsed time per iteration" in text:
            self._take_iteration(line)
        elif _HEAD.search(text):
            self._in_timers = True
        elif "MnRtt/Rnk: " in text:
            for extreme, metric, value, unit, rank in _EXTREME.findall(text):
                self.add_to(
                    STRAGGLER_REPORTS,
                    line.number,
                    metric=metric,
                    extreme="min" if extreme == "Mn" else "max",
                    value=float(value),
                    unit=unit,
                    rank=int(rank),
                )
        else:
            self.take_setting(text)

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """The tables with rows, the last list of timers closed."""
        self._close_timer(0)
        return super().tables()

    def kinds(self) -> list[str]:
        """``Megatron log`` where iterations, timers or stragglers are in it."""
        return [self.KIND] if any(len(rows) for rows in self._rows.values()) else []

    def _take_iteration(self, line: PrintedLine) -> None:
        number, elapsed = _ITERATION.search(line.text), _ELAPSED.search(line.text)
        if number is None or elapsed is None:
            return
        batch, tflops = _BATCH.search(line.text), _TFLOPS.search(line.text)
        self._batch = int(batch[1]) if batch else self._batch
        printed = float(tflops[1]) if tflops else float("nan")
        if self.add_iteration(line.number, int(number[1]), float(elapsed[1]), printed):
            self._iteration = int(number[1])

    def _take_timer(self, line: PrintedLine) -> bool:
        """Whether the line belongs to the list of timers."""
        if found := _OF_RANK.match(line.text):
            if self._timer:
                self._of_ranks.append((float(found[2]), int(found[1])))
            return bool(self._timer)
        if found := _TIMER_NAME.match(line.text):
            self._close_timer(line.number)
            self._timer = found[1]
            return True
        if found := _TIMER.match(line.text):
            low = float(found[2]) if found[3] else None
            self._add_timer(line.number, found[1], low, float(found[3] or found[2]), None)
            return True
        return False

    def _close_timer(self, line: int) -> None:
        if self._timer and self._of_ranks:
            longest, rank = max(self._of_ranks)
            shortest = min(time for time, _ in self._of_ranks)
            self._add_timer(line, self._timer, shortest, longest, rank)
        self._timer, self._of_ranks = "", []

    def _add_timer(
        self, line: int, name: str, low: float | None, high: float, rank: int | None
    ) -> None:
        if high * 1e6 < LONGEST_NS:
            self.add_to(
                RANK_TIMERS,
                line,
                iteration=self._iteration,
                timer=name,
                min_ns=None if low is None else round(low * 1e6),
                max_ns=round(high * 1e6),
                slowest_rank=rank,
            )
