"""How long a run takes, estimated before it starts."""

import math
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.settings import read_settings
from hvdprof.launch.plan.time_budget import PassTimes
from hvdprof.rundir.layout import MANIFEST_NAME
from hvdprof.rundir.manifest import Manifest, Mode, Status
from hvdprof.rundir.masking import mask_command
from hvdprof.units import seconds

MOST_EARLIER_RUNS = 30
ROUNDED_TO_S = 5.0
_PLACES = (f"*/{MANIFEST_NAME}", f"*/present/{MANIFEST_NAME}")
"""Where run directories lie in a folder of runs: the present setting of a tuning is one, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePlan:
    """The estimate of a run.

    Attributes:
        planned_s: Seconds of the passes that are planned and have not ended; None where unknown.
        repeat_s: Seconds of each further repeat; None where unknown.
        basis: What the estimate rests on.
    """

    planned_s: float | None
    repeat_s: float | None
    basis: str

    @property
    def shortest_useful_s(self) -> float | None:
        """Two repeats, the least that shows how much launches differ; None where unknown."""
        if self.planned_s is None or self.repeat_s is None:
            return None
        return math.ceil((self.planned_s + self.repeat_s) / ROUNDED_TO_S) * ROUNDED_TO_S


def time_plan(manifest: Manifest, runs_folder: Path) -> TimePlan:
    """The estimate of a prepared or interrupted run.

    Args:
        manifest: The run.
        runs_folder: Where earlier runs lie; the newest one of the same kind is the basis, where
            this run has no ended passes.
    """
    own = PassTimes(manifest.passes)
    times, basis = own, "the launches so far"
    if not own.num_passes:
        earlier = _earlier_run(manifest, runs_folder)
        times = PassTimes(earlier[1].passes if earlier else ())
        basis = f"as in the earlier run {earlier[0]}" if earlier else ""
    planned = [record for record in manifest.passes if record.status == Status.PLANNED]
    of_mode = [record for record in manifest.passes if record.mode == Mode.THROUGHPUT]
    repeat = [record for record in of_mode if record.repeat == 1]
    planned_s, repeat_s = times.total(planned), times.total(repeat)
    if not basis:
        basis = (
            "no earlier run of this kind; corrected after the first launches"
            if planned_s is not None
            else "unknown before the first launch"
        )
    return TimePlan(planned_s=planned_s, repeat_s=repeat_s, basis=basis)


def fit_budget(manifest: Manifest, runs_folder: Path, *, is_given: bool) -> None:
    """Check the budget of a prepared run; one of a preset becomes the shortest useful one.

    Args:
        manifest: The run; its settings change where the budget does.
        runs_folder: Where earlier runs lie.
        is_given: Whether the user gave the budget.

    Raises:
        UsageError: The budget is too short for one repeat.
    """
    settings = read_settings(manifest)
    plan = time_plan(manifest, runs_folder)
    shortest_s = plan.shortest_useful_s
    if settings.budget_s is None or shortest_s is None or plan.planned_s is None:
        return
    if not is_given:
        manifest.settings["budget_s"] = max(settings.budget_s, shortest_s)
    elif settings.budget_s < plan.planned_s:
        options = settings.options
        has_less = isinstance(options, BenchOptions) and options.preset != "quick"
        raise UsageError(
            f"--budget {settings.budget_s:g}s is too short: one repeat takes about "
            f"{seconds(plan.planned_s, whole=True)} ({plan.basis}).",
            hint=f"Shortest useful budget, two repeats: --budget {shortest_s:g}s"
            + ("; smaller models and fewer steps: --preset quick" if has_less else ""),
        )


def _earlier_run(manifest: Manifest, folder: Path) -> tuple[Path, Manifest] | None:
    """The newest finished run of the same kind on the same host, of the newest in a folder."""
    found = (path for each in _PLACES for path in folder.glob(each)) if folder.is_dir() else ()
    paths = sorted(found, reverse=True)
    wanted = run_kind(manifest)
    for path in islice(paths, MOST_EARLIER_RUNS):
        try:
            earlier = Manifest.read(path.parent)
        except UnreadableInputError:
            # One that is not whole is no basis.
            continue
        if run_kind(earlier) == wanted and PassTimes(earlier.passes).num_passes:
            return path.parent, earlier
    return None


def run_kind(manifest: Manifest) -> tuple[object, ...]:
    """What runs have in common whose passes take the same time; empty of another version."""
    try:
        settings = read_settings(manifest)
    except ValueError:
        return ()
    return (
        [host.get("hostname") for host in manifest.hosts[:1]],
        settings.hosts,
        settings.models,
        settings.script and mask_command(settings.script.command),
        settings.num_threads,
        settings.num_warmup_batches,
        settings.options.num_steps,
        settings.of_models.scaling,
        settings.device,
    )
