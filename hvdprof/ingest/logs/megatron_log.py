"""What Megatron prints of timers over the ranks and of stragglers.

Its lines on iterations are a declared format of ``ingest/rates``.
"""

import re
from collections.abc import Mapping

import pandas as pd

from hvdprof.ingest.logs.iteration_log import LONGEST_NS
from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import EVERY_LINE, anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.printed_tables import RANK_TIMERS, STRAGGLER_REPORTS

_ITERATION = re.compile(
    r"\biteration +(\d{1,12})/ *\d{1,12} \|.*elapsed time per iteration \(ms\): \d+(?:\.\d+)? \|"
)
_HEAD = re.compile(
    r"(?:(?:(?:\(min, max\)|max) time|times) across ranks|^\s*(?P<one>time)) \(ms\):\s*$"
)
# Timers of DeepSpeed have names with underscores.
_ONE_RANK = re.compile(r"^\s*time \(ms\) \| (?!.{0,300}\b[a-z]+_[a-z_]+: )")
_TIME = re.compile(r"([^|:]{1,80}): (\d+(?:\.\d+)?)(?= \||\s*$)")
_STAGES = re.compile(
    r"pipeline-model-parallel[ -]size: (\d{1,5})\b|"
    r"^\s*pipeline_model_parallel_size \.+ (\d{1,5})\s*$"
)
_TIMER = re.compile(r"^\s*(\S[^.:]{0,80}?) \.*: \(?(\d+(?:\.\d+)?)(?:, (\d+(?:\.\d+)?)\))?\s*$")
_TIMER_NAME = re.compile(r"^\s*([\w/-]{1,80}):\s*$")
_OF_RANK = re.compile(r"^\s*rank +(\d{1,7}): (\d+(?:\.\d+)?)\s*$")
_EXTREME = re.compile(
    r"\b(Mn|Mx)(Rtt|Pwr|Tmp|Utl|Clk|DRtt|Etpt)/Rnk: (\d+(?:\.\d+)?)(ms|us|W|C|%|MHz|TF)/(\d{1,7})\b"
)
_WANTED = anywhere(
    "elapsed time per iteration",
    r"across ranks \(ms\):",
    r"time \(ms\)",
    "MnRtt/Rnk: ",
    r"pipeline-model-parallel[ -]size: ",
    r"pipeline_model_parallel_size \.",
)


class MegatronLog(PartReader):
    """Timers and straggler reports of one job."""

    TABLES = (RANK_TIMERS, STRAGGLER_REPORTS)
    KIND = "Megatron log"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._iteration: int | None = None
        self._in_timers = False
        self._is_one_rank = False
        self._timer = ""
        self._of_ranks: list[tuple[float, int]] = []
        self._stages: int | None = None

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
        if number := _ITERATION.search(text):
            self._iteration = int(number[1])
        elif head := _HEAD.search(text):
            self._in_timers, self._is_one_rank = True, bool(head["one"])
        elif _ONE_RANK.match(text):
            self._take_one_rank(line)
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
        elif found := _STAGES.search(text):
            self._stages = self._stages or int(found[1] or found[2])

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """The tables with rows, the last list of timers closed."""
        self._close_timer(0)
        return super().tables()

    def kinds(self) -> list[str]:
        """``Megatron log`` where timers or stragglers are in it."""
        return [self.KIND] if any(len(rows) for rows in self._rows.values()) else []

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
            low = float(found[2]) if found[3] or self._is_one_rank else None
            high = float(found[3] or found[2])
            self._add_timer(line.number, found[1], low, high, 1 if self._is_one_rank else None)
            return True
        return False

    def _take_one_rank(self, line: PrintedLine) -> None:
        """The times of the rank that prints, all in one line, as Megatron wrote them until 2022."""
        _, _, times = line.text.partition("|")
        for name, time in _TIME.findall(times):
            self._add_timer(line.number, name.strip(), float(time), float(time), 1)

    def _close_timer(self, line: int) -> None:
        if self._timer and self._of_ranks:
            ordered = sorted(self._of_ranks)
            (shortest, fastest), (longest, slowest) = ordered[0], ordered[-1]
            others = {}
            if len(ordered) > 1 and longest * 1e6 < LONGEST_NS:
                others = {
                    "slowest_rank": slowest,
                    "fastest_rank": fastest,
                    "second_max_ns": round(ordered[-2][0] * 1e6),
                    "second_min_ns": round(ordered[1][0] * 1e6),
                }
            self._add_timer(line, self._timer, shortest, longest, len(ordered), others)
        self._timer, self._of_ranks = "", []

    def _add_timer(
        self,
        line: int,
        name: str,
        low: float | None,
        high: float,
        num_ranks: int | None,
        others: Mapping[str, int] | None = None,
    ) -> None:
        if high * 1e6 < LONGEST_NS:
            self.add_to(
                RANK_TIMERS,
                line,
                iteration=self._iteration,
                timer=name,
                min_ns=None if low is None else round(low * 1e6),
                max_ns=round(high * 1e6),
                num_ranks=num_ranks,
                pipeline_stages=self._stages,
                **(others or {}),
            )
