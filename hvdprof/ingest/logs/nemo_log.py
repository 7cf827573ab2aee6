"""What NeMo prints of iterations: lines of NeMo 2, and progress bars of both versions.

A progress bar is drawn over itself: twice for each iteration, the first time with the values of the
one before, and again wherever something else is written. What is drawn last of an iteration counts.
So it is no declared format of a line: what a bar says depends on those before and behind it.
Numbers in a bar have three digits where that is shorter (``1.63e+6``).

Tested in ``tests/ingest/logs/test_nemo_log.py``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from hvdprof.ingest.logs.iteration_log import WANTED_SETTINGS, IterationLog
from hvdprof.ingest.text.line_filter import anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.log_tables import THROUGHPUT
from hvdprof.model.tables.printed_tables import NEMO_SERIES, TRAINING_ITERATIONS

_BAR = re.compile(
    r"Epoch (\d{1,9}): *:? *(?:\d{1,3}%\|[^|\[\]]{0,1000}\| *(\d{1,12})/\d{1,12}|(\d{1,12})it) "
    r"\[([^\[\]]{0,4000})\]"
)
_LINE = re.compile(r"Training epoch (\d{1,9}), iteration (\d{1,12})/\d{1,12} \| (.{1,4000})")
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{0,18})?(?:e[+-]?\d{1,2})?")
_TIMING = "train_step_timing in s"
_TFLOPS = ("TFLOPS_per_GPU", "tflops_per_sec_per_gpu")
_WANTED = anywhere(_TIMING, "reduced_train_loss=", *WANTED_SETTINGS)
_LARGEST_BATCH = 10**9


@dataclass(frozen=True, slots=True)
class _Shown:
    """One iteration as it is shown; ``is_whole`` where more follows its length."""

    line: int
    epoch: int
    iteration: int
    fields: Mapping[str, str]
    is_whole: bool = True

    def number(self, *names: str) -> float | None:
        """The value of the first of some fields that is a number."""
        for name in names:
            if found := _NUMBER.fullmatch(self.fields.get(name, "")):
                return float(found[0])
        return None

    def exact(self, name: str) -> int | None:
        """A whole number that is not rounded."""
        value = self.number(name)
        if value is None or "e" in self.fields[name] or not value.is_integer():
            return None
        return int(value)


class NemoLog(IterationLog):
    """Iterations of one job of NeMo."""

    TABLES = (TRAINING_ITERATIONS, THROUGHPUT)
    KIND = "NeMo log"
    series = NEMO_SERIES

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._shown: _Shown | None = None
        self._step: int | None = None
        self._samples: tuple[int, int] | None = None
        self._num_untimed = 0

    @property
    def wanted(self) -> str:
        """Lines with the length of an iteration, and those of settings."""
        return _WANTED

    def take(self, line: PrintedLine) -> None:
        """Look at the next line, which may hold several progress bars."""
        if found := _LINE.search(line.text):
            fields = _fields(found[3], " | ", ": ")
            is_whole = next(reversed(fields), "") != _TIMING
            self._take(_Shown(line.number, int(found[1]), int(found[2]), fields, is_whole))
        elif "Epoch " in line.text:
            for epoch, number, of_unknown, text in _BAR.findall(line.text):
                # Before its first iteration, a bar shows values of the epoch before.
                if iteration := int(number or of_unknown):
                    fields = _fields(text, ", ", "=")
                    self._take(_Shown(line.number, int(epoch), iteration, fields))
        else:
            self.take_setting(line.text)

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """The tables with rows; a last line that ends within its length is left out."""
        if self._shown is not None and self._shown.is_whole:
            self._keep(self._shown)
        self._shown = None
        return super().tables()

    def notes(self) -> list[Note]:
        """What NeMo needs to state the length of iterations, where bars show none."""
        if not self._num_untimed or len(self.rows):
            return []
        fix = "set exp_manager.log_step_timing=True"
        text = f"its progress bars of NeMo state no '{_TIMING}': {fix}"
        return [Note(NoteCode.NO_TIMING, text)]

    def _take(self, shown: _Shown) -> None:
        if _TIMING not in shown.fields:
            # Without its loss, a bar is of Lightning or tqdm.
            self._num_untimed += "reduced_train_loss" in shown.fields
            return
        before, self._shown = self._shown, shown
        if before and (before.epoch, before.iteration) != (shown.epoch, shown.iteration):
            self._keep(before)

    def _keep(self, shown: _Shown) -> None:
        seconds, step = shown.number(_TIMING), shown.exact("global_step")
        # Its values are those of the iteration before.
        if seconds is None or (step is not None and step == self._step):
            return
        self._step = step
        self._batch = self._batch_of(shown, step) or self._batch
        tflops = shown.number(*_TFLOPS)
        printed = float("nan") if tflops is None else tflops
        self.add_iteration(shown.line, shown.iteration, seconds * 1e3, printed)

    def _batch_of(self, shown: _Shown, step: int | None) -> int | None:
        """The global batch size, as stated or by the samples since an earlier step."""
        samples = shown.exact("consumed_samples")
        before = self._samples or (-1, 0)
        if step is not None and samples is not None:
            self._samples = step, samples
        if stated := shown.exact("global_batch_size"):
            return stated if stated <= _LARGEST_BATCH else None
        if step is None or samples is None or step <= before[0]:
            return None
        size, rest = divmod(samples - before[1], step - before[0])
        return size if not rest and 0 < size <= _LARGEST_BATCH else None


def _fields(text: str, separator: str, sign: str) -> dict[str, str]:
    pairs = (part.partition(sign) for part in text.strip().split(separator))
    return {name.strip(): value.strip() for name, found, value in pairs if found}
