"""What lines on iterations have in common: iterations, ranks and batch size.

Batch size and number of ranks together give samples per second, which is the throughput of the job.

Tested in ``tests/ingest/logs/test_megatron_log.py`` and ``test_nemo_log.py``.
"""

import re
import statistics
from collections.abc import Mapping

import pandas as pd

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.model.tables.log_tables import THROUGHPUT
from hvdprof.model.tables.printed_tables import TRAINING_ITERATIONS

LONGEST_NS = 2**62
"""Times from here on are damage."""

_WORLD = re.compile(
    r"(?:using world size: |^\s*world_size \.+ |"
    r"distributed processes registered\. Starting with )(\d{1,7})\b"
)
_ARGUMENT = re.compile(r"^\s*global_batch_size(?: \.+|:) (\d{1,9})\s*$")
WANTED_SETTINGS = (
    r"using world size: ", r"world_size \.", r"distributed processes registered\. ",
    r"global_batch_size \.", r"global_batch_size: ",
)  # fmt: skip
"""Patterns of the lines that ``take_setting`` needs."""


class IterationLog(PartReader):
    """Iterations of one job, with the world size and the batch size printed before them.

    Attributes:
        series: The series of its throughput.
    """

    series = ""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._np: int | None = None
        self._batch: int | None = None
        self._steps: list[tuple[int, float, int]] = []

    def take_setting(self, text: str) -> None:
        """Keep the world size or the batch size, where the line states one; the first counts."""
        if found := _WORLD.search(text):
            self._np = self._np or int(found[1])
        elif found := _ARGUMENT.match(text):
            self._batch = self._batch or int(found[1])

    def add_iteration(self, line: int, iteration: int, step_ms: float, tflops: float) -> bool:
        """Add a row of TRAINING_ITERATIONS with the settings so far; False where it is damaged."""
        step_ns = round(step_ms * 1e6) if step_ms * 1e6 < LONGEST_NS else 0
        if step_ns <= 0:
            return False
        if self._batch:
            self._steps.append((line, step_ns, self._batch))
        self.add_to(
            TRAINING_ITERATIONS,
            line,
            iteration=iteration,
            step_ns=step_ns,
            global_batch_size=self._batch,
            tflops_per_gpu=tflops,
            np=self._np or self.np,
        )
        return True

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """The tables with rows; THROUGHPUT where ranks and batch size are printed."""
        # The first line holds start-up and compilation.
        steady = self._steps[1:]
        np = self._np or self.np
        if np and len(steady) > 1:
            rates = [batch * 1e9 / step for _, step, batch in steady]
            self.add_to(
                THROUGHPUT,
                steady[0][0],
                series=self.series,
                np=np,
                samples_per_s=statistics.median(rates),
            )
        self._steps = []
        return super().tables()
