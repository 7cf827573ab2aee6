"""Horovod's autotuning log (HOROVOD_AUTOTUNE_LOG), alone or pasted into other text.

Fields are separated by commas with a stray blank before the fourth (``parameter_manager.cc``);
versions without torus allreduce have a column less; the threshold is in MiB, the score in bytes by
microsecond.
"""

import re

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.log_tables import AUTOTUNE

_HEADER = re.compile(
    r"hierarchical_allreduce, ?hierarchical_allgather, ?(?P<torus>torus_allreduce, ?)?"
    r"cache_enabled, ?cycle_time_ms, ?tensor_fusion_threshold, ?score"
)
_NUMBER = r"\d{1,9}(?:\.\d{1,12})?(?:e[+-]\d\d)?"
_SAMPLE = re.compile(
    r"(?<![\d.,])(?P<flags>(?:[01], ?){3,4})(?P<cycle>\d{1,9}(?:\.\d{1,12})?(?:e-\d\d)?), ?"
    rf"(?P<threshold>{_NUMBER}), ?(?P<score>{_NUMBER})\s*$"
)
_HEADERS = anywhere(_HEADER.pattern)
_SAMPLES = f"{_HEADERS}|[01], ?[01], ?[01], ?[0-9]"


class Autotune(PartReader):
    """The samples of autotuning as rows of AUTOTUNE; nothing is read before its header."""

    TABLES = (AUTOTUNE,)
    KIND = "autotuning log"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._num_flags: int | None = None
        self._best: tuple[float, str] = (float("-inf"), "")
        self._run = -1
        self._run_of_last = -1

    @property
    def wanted(self) -> str:
        """The header, and samples below it."""
        return _HEADERS if self._num_flags is None else _SAMPLES

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        header = _HEADER.search(line.text)
        if header is not None:
            self._num_flags = 4 if header["torus"] else 3
            self._run += 1
            self._best = (float("-inf"), "")
            return
        if self._num_flags is None:
            return
        sample = _SAMPLE.search(line.text)
        if sample is None:
            return
        is_quoted = bool(line.text[: sample.start()].strip())
        if is_quoted and len(self.rows):
            # A page that states results of several jobs: their scores are not comparable.
            self._run += 1
            self._best = (float("-inf"), "")
        self._take_sample(sample, line.number)

    def kinds(self) -> list[str]:
        """``autotuning log`` where there is a header, even without a sample."""
        return [self.KIND] if self._num_flags is not None else []

    def _take_sample(self, sample: re.Match[str], number: int) -> None:
        flags = [flag.strip() == "1" for flag in sample["flags"].split(",")[:-1]]
        if len(flags) != self._num_flags:
            return
        parameters = re.sub(r"\s", "", sample.group())
        score = float(sample["score"])
        repeats = parameters == self._best[1] and score == self._best[0]
        if self._run_of_last == self._run:
            # Only the last row can be the one that Horovod writes in the end.
            self.rows.set_last(final=False)
        self._run_of_last = self._run
        self.add(
            number,
            run=self._run,
            hierarchical_allreduce=flags[0],
            hierarchical_allgather=flags[1],
            torus_allreduce=flags[2] if len(flags) == 4 else None,
            cache_enabled=flags[-1],
            cycle_time_ns=round(float(sample["cycle"]) * 1e6),
            fusion_threshold_mb=float(sample["threshold"]),
            score=score,
            final=repeats,
        )
        if score > self._best[0]:
            self._best = (score, parameters)
