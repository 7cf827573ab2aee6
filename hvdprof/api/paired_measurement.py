"""Two variants of a script, measured by turns and compared: PairedMeasurement.

Tested in ``tests/test_compare_end_to_end.py``.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from hvdprof.api.comparison import Comparison, ComparisonOutcome, compare_by_rules, comparison_rules
from hvdprof.api.measured_runs import plan_measurement
from hvdprof.api.measurement import Measurement
from hvdprof.api.options import CompareOptions
from hvdprof.errors import (
    HvdprofError,
    NotComparableError,
    SweepIncompleteError,
    UnreadableInputError,
)
from hvdprof.launch.plan.compare_options import variants_of
from hvdprof.launch.plan.preflight import parse_duration
from hvdprof.launch.run.interleaved_sweeps import run_interleaved
from hvdprof.launch.run.run_folder import new_run_folder
from hvdprof.launch.run.sweep_state import JoinedProgress, SilentProgress, SweepProgress
from hvdprof.rundir.stopping import comparison_looks, look_level

FIRST, SECOND = "a", "b"
"""The run directories of both variants in the folder of a comparison."""


class PairedMeasurement:
    """Two variants that are ready to be measured by turns.

    Attributes:
        folder: Holds the run directories ``a`` and ``b``.
        variants: Both measurements.
        most_repeats: The most launches of each at every number of ranks.
    """

    def __init__(
        self,
        options: CompareOptions,
        *,
        progress: SweepProgress | None = None,
        margin: float,
        fail_on: Sequence[str] = (),
        force: bool = False,
    ) -> None:
        """Check the options and prepare both variants; nothing is written.

        Raises:
            UsageError: An option cannot be used, or both variants are the same.
            EnvironmentNotReadyError: This machine cannot run them.
        """
        self.most_repeats = options.repeats
        level = look_level(options.repeats)
        self._rules = comparison_rules(margin, fail_on, force=force, level=level)
        self._budget_s = (
            None if options.budget is None else parse_duration("--budget", options.budget)
        )
        self.folder = new_run_folder(options.folder, options.name or "compare")
        both = JoinedProgress(progress or SilentProgress(), 2)
        self.variants: tuple[Measurement, ...] = tuple(
            plan_measurement(replace(side, output=self.folder / name), progress=both)
            for side, name in zip(variants_of(options), (FIRST, SECOND), strict=True)
        )
        pair = uuid.uuid4().hex
        for variant in self.variants:
            variant.manifest.paired_by = pair

    @property
    def looks(self) -> tuple[int, ...]:
        """The repeats after which a decision ends the measurement."""
        return comparison_looks(self.most_repeats)

    def measure(self) -> HvdprofError | None:
        """Make the folders, ready the hosts, and run the launches by turns.

        Returns:
            Why a variant is incomplete; None where both are whole.

        Raises:
            StorageError: A folder cannot be made, or the disk is full.
            InterruptedRunError: Ctrl-C or SIGTERM; what was measured is kept.
            EnvironmentNotReadyError: A host cannot run its part; no rank was started.
        """
        self.variants[0].wait_for_idle()
        for variant in self.variants:
            variant.make_folder()
        for variant in self.variants:
            variant.ready_hosts()
        sweeps = [variant.started_sweep() for variant in self.variants]
        run_interleaved(sweeps, self._enough())
        for sweep in sweeps:
            try:
                sweep.raise_if_failed()
            except SweepIncompleteError as error:
                # Resuming one side alone would pair launches of different hours.
                error.hint = "Measure both again; the report says which variant failed and why."
                return error
        return None

    def compare(self) -> Comparison:
        """The comparison of what was measured.

        Raises:
            NotComparableError: Both have no cell in common.
        """
        first, second = (variant.folder for variant in self.variants)
        return compare_by_rules(first, second, self._rules)

    def _enough(self) -> Callable[[int], bool]:
        """Asked after every repeat: whether the outcome is decided, or the time is used."""
        looks, began = self.looks, time.monotonic()

        def is_enough(repeat: int) -> bool:
            used_s = time.monotonic() - began
            if self._budget_s is not None and used_s * (repeat + 1) / repeat > self._budget_s:
                return True
            return (repeat == 1 or repeat in looks) and self._is_decided(is_look=repeat in looks)

        return is_enough

    def _is_decided(self, *, is_look: bool) -> bool:
        """Whether more launches could not change what is asked; nothing is looked at before a look.

        A regression decides. Otherwise every judged cell has to be decided: of the metrics of the
        gate, or of the metric of the verdict.
        """
        try:
            found = self.compare()
        except (NotComparableError, UnreadableInputError):
            # One variant has no result yet: there is nothing to decide by.
            return False
        if found.outcome is ComparisonOutcome.NOT_COMPARABLE:
            return True
        if not is_look:
            return False
        judged = {result.condition.metric.name for result in found.gate} or {found.metric.name}
        if any(result.outcome is ComparisonOutcome.REGRESSED for result in found.gate):
            return True
        if not found.gate and found.outcome is ComparisonOutcome.REGRESSED:
            return True
        rows = found.cells[found.cells["metric"].isin(judged)]
        return ComparisonOutcome.INCONCLUSIVE not in set(rows["outcome"])
