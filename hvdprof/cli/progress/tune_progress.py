"""What a tuning is about to do, and what it found so far, on stderr.

Tested in ``tests/cli/progress/test_tune_progress.py``.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

from hvdprof import api, units

if TYPE_CHECKING:
    from hvdprof.api.tuning import Candidate, Choice, RaceStanding, RunAnalysis


def announce_tuning(tuning: "api.TuningMeasurement", stream: IO[str]) -> None:
    """Write what is tuned, where the runs are saved, and how long the first of them takes."""
    present = tuning.present
    stream.write(f"hvdprof: tuning {shlex.join(tuning.command)}")
    stream.write(f" on {tuning.num_ranks} ranks into {tuning.folder}\n")
    if present.has_secret:
        stream.write("! It seems to hold a secret; resume.json keeps it, for your eyes only.\n")
    plan = present.time_plan()
    length = "" if plan.planned_s is None else f", about {units.duration(plan.planned_s)}"
    num = len(present.manifest.passes)
    launches = f"{num} launch{'es' if num > 1 else ''}"
    stream.write(f"  First the present setting: {launches}{length} ({plan.basis}).\n")
    if math.isfinite(tuning.budget_s):
        stream.write(f"  Budget: {units.duration(tuning.budget_s)} in all.\n")
    for warning in present.manifest.warnings:
        stream.write(f"! {warning}\n")


def tuning_progress(stream: IO[str]) -> "api.TuningProgress":
    """Writes lines about the progress of a tuning."""
    return _Lines(stream)


class _Lines:
    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._dropped: set[str] = set()

    def present_measured(
        self, analysis: "RunAnalysis", choice: "Choice", plan: "api.RacePlan"
    ) -> None:
        """The verdict on the present setting, what is tried, and how long it takes."""
        self._write(f"Present setting: {analysis.verdict.sentence}")
        for candidate in choice.candidates:
            predicted = ""
            if candidate.predicted is not None:
                predicted = f" Predicted gain: {units.percent(candidate.predicted.value)}."
            self._write(f"  {candidate.name}: {candidate.why}{predicted}")
        if choice.candidates:
            self._write(
                f"Race: {units.counted(plan.num_settings, 'setting')} beside the present one, "
                f"at most {plan.most_rounds} rounds, then a check of what wins; "
                f"{units.duration(plan.shortest_s)} to {units.duration(plan.longest_s)}."
            )

    def round_ended(self, number: int, standings: "Sequence[RaceStanding]") -> None:
        """What was dropped after a round, and what leads."""
        for standing in standings:
            name = standing.candidate.name
            if standing.outcome is not None and name not in self._dropped:
                self._dropped.add(name)
                gain = "" if math.isnan(standing.gain.value) else f" ({_gain(standing)})"
                self._write(f"  Round {number}: {name} dropped, {standing.outcome}{gain}")
        racing = [standing for standing in standings if standing.outcome is None]
        known = [racer for racer in racing if not math.isnan(racer.gain.value)]
        if known:
            best = max(known, key=lambda racer: racer.gain.value)
            self._write(
                f"  Round {number}: {best.candidate.name} leads ({_gain(best)}), "
                f"{units.counted(len(racing), 'setting')} left"
            )

    def check_started(self, entries: "Mapping[str, tuple[Candidate, ...]]") -> None:
        """What is measured anew."""
        names = [" + ".join(candidate.name for candidate in entry) for entry in entries.values()]
        self._write(f"Check against the present setting: {', '.join(names)}")

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()


def _gain(standing: "RaceStanding") -> str:
    return f"gain {units.percent(standing.gain.value)}"
