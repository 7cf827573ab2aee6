"""What throughput benchmarks print: tf_cnn_benchmarks and Horovod's synthetic benchmarks.

tf_cnn_benchmarks: every rank prints a running mean and, in the end, ``total images/sec``, its own
estimate of the total of all ranks (``benchmark_cnn.py``): these are averaged over the ranks of a
run, never summed.
``*_synthetic_benchmark.py``: rank 0 prints its rate by iteration, its mean with 1.96 standard
deviations, and ``Total img/sec on N GPU(s)``, the mean times N.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.log_tables import PRINTED_RATES, THROUGHPUT
from hvdprof.units import counted

_TF_CNN, _SYNTHETIC, _OTHER = "tf_cnn_benchmarks", "synthetic_benchmark", "other"
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_RATE, _SPREAD = rf"(?P<rate>{_NUMBER})", rf"(?P<spread>{_NUMBER})"
_RATES = tuple(
    (tool, scope, re.compile(pattern))
    for tool, scope, pattern in (
        (_TF_CNN, "step", rf"^(?P<iteration>\d+)\s+images/sec: {_RATE} \+/- {_SPREAD}"),
        (_SYNTHETIC, "step", rf"Iter #(?P<iteration>\d+): {_RATE} img/sec per"),
        (_SYNTHETIC, "rank", rf"Img/sec per \w+: {_RATE} \+-{_SPREAD}"),
        (_TF_CNN, "job", rf"^total images/sec: {_RATE}"),
        (_SYNTHETIC, "job", rf"Total img/sec on (?P<np>\d+) \w+\(s\): {_RATE} \+-{_SPREAD}"),
        (
            _OTHER,
            "job",
            rf"Throughput: {_RATE} (?:images|samples|examples)/s\b.*?"
            r"Num of (?:GPU|CPU)s: (?P<np>\d+)",
        ),
    )
)
"""Tool, what the rate is of, and the line; the first that matches counts."""

_MODEL = re.compile(r"^\W{0,3}Model: +(\S+?)`?\s*$")
_HEADERS = ("Batch size:", "Devices:", "Number of ", " ")
_BATCH = re.compile(r"^(?:Batch size: +(\d+)\s*$|\s+(\d+) per device)")
_DEVICES = re.compile(r"^Devices: +\[(.*)\]")
_NUM_DEVICES = re.compile(r"^Number of \w+: (\d+)\s*$")
_WANTED = anywhere(
    *(pattern.pattern for _, _, pattern in _RATES),
    *(pattern.pattern for pattern in (_MODEL, _BATCH, _DEVICES, _NUM_DEVICES)),
)


@dataclass(slots=True)
class _Job:
    """One run in the file: what its header said, and the totals that its ranks printed."""

    number: int = 0
    ranks: set[int | None] = field(default_factory=set)
    model: str = ""
    batch: str = ""
    np: int | None = None
    totals: list[tuple[str, int, int, float]] = field(default_factory=list)


class BenchmarkOutput(PartReader):
    """Every printed rate as PRINTED_RATES, and the throughput of each job as THROUGHPUT."""

    TABLES = (PRINTED_RATES, THROUGHPUT)

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._job = _Job()
        self._tools: dict[str, None] = {}
        self._num_unplaced = 0

    @property
    def wanted(self) -> str:
        """Rates, and what the header of a benchmark says."""
        return _WANTED

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        text = line.text
        if "/sec" in text or "/s" in text:
            self._take_rate(line)
        elif text.startswith(_HEADERS) or _MODEL.match(text):
            self._take_header(text, line.rank)

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """PRINTED_RATES and THROUGHPUT."""
        self._close_job()
        return super().tables()

    def kinds(self) -> list[str]:
        """The benchmarks whose output is in the file."""
        return [f"{tool} output" if tool != _OTHER else "throughput lines" for tool in self._tools]

    def notes(self) -> list[Note]:
        """Totals whose number of ranks is not known."""
        if not self._num_unplaced:
            return []
        text = f"{counted(self._num_unplaced, 'total')} without a number of ranks"
        return [Note(NoteCode.NO_RANKS, text, number=self._num_unplaced)]

    def _take_header(self, text: str, rank: int | None) -> None:
        model = _MODEL.match(text)
        if model is not None:
            if self._is_seen(rank):
                self._begin_job()
            self._job.model = model.group(1)
        batch = _BATCH.match(text)
        if batch is not None:
            self._job.batch = batch.group(1) or batch.group(2)
        devices, number = _DEVICES.match(text), _NUM_DEVICES.match(text)
        if devices is not None:
            self._job.np = devices.group(1).count("horovod/") or None
        if number is not None:
            self._job.np = int(number.group(1)[:9])

    def _take_rate(self, line: PrintedLine) -> None:
        for tool, scope, pattern in _RATES:
            match = pattern.search(line.text)
            if match is not None:
                self._add(line, tool, scope, match.groupdict())
                return

    def _add(self, line: PrintedLine, tool: str, scope: str, stated: dict[str, str | None]) -> None:
        rate, iteration, np = (
            float(stated["rate"] or "nan"),
            stated.get("iteration"),
            stated.get("np"),
        )
        self._tools.setdefault(tool)
        if self._is_of_next_job(line, tool, scope, stated):
            self._begin_job()
        self._job.ranks.add(line.rank)
        if np is not None:
            self._job.np = int(np[:9])
        self.add(
            line.number,
            rank=line.rank,
            job=self._job.number,
            tool=tool,
            scope=scope,
            iteration=int(iteration[:18]) if iteration else None,
            samples_per_s=rate,
            spread=float(stated.get("spread") or "nan"),
            np=self._job.np,
        )
        if scope == "job" and self._job.np:
            self._job.totals.append((tool, self._job.np, line.number, rate))
        elif scope == "job":
            self._num_unplaced += 1

    def _is_seen(self, rank: int | None) -> bool:
        """Whether the rank has printed a rate in this run; output without tags is of any rank."""
        return rank in self._job.ranks or (rank is None and bool(self._job.ranks))

    def _is_of_next_job(
        self, line: PrintedLine, tool: str, scope: str, stated: dict[str, str | None]
    ) -> bool:
        """Whether a rate belongs to another run, whose header may be missing."""
        totals = self._job.totals
        if not totals or not self._is_seen(line.rank):
            return False
        if tool == _OTHER or totals[-1][0] == _OTHER:
            return tool != totals[-1][0] or stated.get("np") != str(totals[-1][1])
        return scope == "step" and stated.get("iteration") in ("0", "1")

    def _begin_job(self) -> None:
        self._close_job()
        self._job = _Job(self._job.number + 1)

    def _close_job(self) -> None:
        job = self._job
        for tool, np in dict.fromkeys((tool, np) for tool, np, _, _ in job.totals):
            rows = [row for row in job.totals if row[:2] == (tool, np)]
            model = job.model or "unnamed model"
            batch = f", batch {job.batch}" if job.batch else ""
            self.add_to(
                THROUGHPUT,
                rows[-1][2],
                series=f"{tool} {model}{batch}" if tool != _OTHER else "printed throughput",
                np=np,
                samples_per_s=sum(rate for _, _, _, rate in rows) / len(rows),
            )
        job.totals = []
