"""What of a tuning stands in its folder: the present setting as measured, and the result."""

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from hvdprof.api.measurement import Measurement
from hvdprof.api.options import TuneOptions
from hvdprof.api.runs import analyze_run
from hvdprof.api.tuning.candidates import Choice, untried
from hvdprof.errors import StorageError, SweepIncompleteError, UnreadableInputError, UsageError
from hvdprof.launch.plan.time_budget import LaunchLength, TimeBudget, run_kind
from hvdprof.launch.run.script_command import torchrun_command
from hvdprof.model.results.tuning import TUNING_SCHEMA_VERSION, Tuning
from hvdprof.model.run import RunAnalysis
from hvdprof.report.shown_result import shown
from hvdprof.rundir.json_codec import decode
from hvdprof.rundir.layout import RunPaths, TuningPaths
from hvdprof.rundir.manifest import Manifest, Mode, Status
from hvdprof.rundir.regular_file import read_regular, shown_name
from hvdprof.rundir.written_file import mode_of_files, write_whole

_ENDS = ("low", "high")


def write_tuning(tuning: Tuning, folder: Path) -> None:
    """Write a result into the folder of its tuning.

    Raises:
        StorageError: The file cannot be written.
    """
    content = {"schema_version": TUNING_SCHEMA_VERSION, **asdict(tuning)}
    text = json.dumps(_without_nan(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    paths = TuningPaths(folder)
    write_whole(paths.result, text, mode=mode_of_files(paths.present))


def check_folder(folder: Path) -> None:
    """Check that a new tuning can be saved in a folder.

    Raises:
        StorageError: The folder holds something, or is no folder.
    """
    try:
        is_used = folder.exists() and any(folder.iterdir())
    except OSError as error:
        raise StorageError(
            f"{folder} cannot hold a tuning: {error.strerror}.",
            hint="Name a new folder with --runs.",
        ) from error
    if is_used:
        raise StorageError(
            f"{folder} is not empty, and tunings are not overwritten.",
            hint="Name a new folder with --runs.",
        )


def load_tuning(folder: str | Path) -> Tuning:
    """The result of a tuning that has ended.

    Raises:
        UnreadableInputError: The folder holds no result, or one of another version.
    """
    path = TuningPaths(Path(folder)).result
    try:
        data = json.loads(read_regular(path), object_hook=_with_open_ends)
        if data.get("schema_version") != TUNING_SCHEMA_VERSION:
            raise ValueError(f"schema_version is not {TUNING_SCHEMA_VERSION}")
        return shown(decode(Tuning, data, path.name))
    except OSError as error:
        raise UnreadableInputError(
            f"{folder} holds no result of a tuning: {error.strerror}.",
            hint="hvdprof tune writes tuning.json at its end; its runs are in the folders "
            "present, race and check.",
        ) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise UnreadableInputError(f"{shown_name(path)} is damaged: {error}.") from error


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _with_open_ends(record: dict[str, object]) -> dict[str, object]:
    """An object of JSON; the open ends of an interval are NaN again."""
    if record.keys() != {"value", *_ENDS}:
        return record
    return {name: math.nan if value is None else value for name, value in record.items()}


@dataclass(slots=True)
class RaceBudget:
    """How a race fits into the time that is left after the present setting.

    Attributes:
        budget: The time.
        launch: The length of a launch of the present setting.
        fewer_steps: Steps of a launch where it had to be shortened.
        too_long_s: Seconds of the shortest race where it does not fit.
    """

    budget: TimeBudget
    launch: LaunchLength = field(default_factory=lambda: LaunchLength(0.0, 0.0, 0))
    fewer_steps: int | None = None
    too_long_s: float | None = None

    def that_fit(self, choice: Choice) -> Choice:
        """The choice without what the budget does not allow; launches are shortened first."""
        left_s, candidates = self.budget.left_s, choice.candidates
        if not candidates or left_s == math.inf:
            return choice
        num, num_steps = self.launch.race_within(left_s, len(candidates))
        if not num:
            self.too_long_s = self.launch.shortest_race_s
        elif num_steps < self.launch.num_steps:
            self.fewer_steps = num_steps
        left_out = (untried(one, "the budget is too short") for one in candidates[num:])
        return replace(choice, candidates=candidates[:num], untried=(*left_out, *choice.untried))


def present_analysis(present: Measurement, folder: Path, num_ranks: int) -> RunAnalysis:
    """The analysis of the present setting in its folder, after its launches if it is not there.

    Raises:
        SweepIncompleteError: The number of ranks that is tuned has no result.
        InterruptedRunError: Ctrl-C or SIGTERM.
    """
    failure = None
    try:
        if not RunPaths(folder).manifest.is_file():
            present.measure()
    except SweepIncompleteError as error:
        failure = error
    analysis = analyze_run(folder)
    if failure is not None and not (analysis.scaling["np"] == num_ranks).any():
        reason = analysis.failed[0].reason if analysis.failed else failure.message
        raise SweepIncompleteError(
            f"The present setting fails on {num_ranks} ranks: {reason}.",
            hint=f"hvdprof analyze {folder}",
        ) from failure
    return analysis


def check_resumed(paths: TuningPaths, planned: Manifest, num_ranks: int) -> None:
    """Check that what an earlier tuning measured in a folder is the present setting as planned now.

    Raises:
        UsageError: It has raced, is of another job, or has no result.
    """
    folder, hint = paths.folder, "Omit --resume to tune anew."
    if paths.race.exists():
        raise UsageError(f"{folder} has raced: hvdprof tune {folder} shows its result.", hint=hint)
    if not RunPaths(paths.present).manifest.is_file():
        raise UsageError(f"{folder} holds no present setting of a tuning.", hint=hint)
    earlier = Manifest.read(paths.present)
    if run_kind(earlier) != run_kind(planned):
        what = "its command, hosts, threads or steps differ"
        raise UsageError(f"{folder} tuned another job: {what}.", hint=hint)
    if not any(one.size == num_ranks and one.status == Status.DONE for one in earlier.passes):
        raise UsageError(f"{folder} has no result on {num_ranks} ranks.", hint=hint)


def launch_length(analysis: RunAnalysis, num_ranks: int, num_steps: int | None) -> LaunchLength:
    """The length of a launch on so many ranks, without a trace where one was measured.

    ``num_steps`` are the measured steps that were asked for; None where the job ends by itself.
    """
    passes = [
        record
        for record in analysis.run.manifest.passes
        if record.size == num_ranks and record.status == Status.DONE and record.duration_s
    ]
    plain = [record for record in passes if record.mode == Mode.THROUGHPUT] or passes
    duration_s = float(np.mean([record.duration_s for record in plain])) if plain else 0.0
    launches = analysis.launches
    own = launches[launches["pass_id"].astype(str).isin([one.id for one in plain]).to_numpy()]
    if own.empty:
        return LaunchLength(duration_s, 0.0, 0)
    step_s = float(own["step_time_ns"].mean()) / 1e9
    measured = num_steps or int((own["num_steps"] + own["num_cut_steps"]).mean())
    # Launches that took turns have waited for each other.
    return LaunchLength(max(duration_s - step_s * measured, 0.0), step_s, measured)


def with_ranks_of_torchrun(options: TuneOptions) -> TuneOptions:
    """The options with the number of ranks that a ``torchrun`` command names, unless given."""
    found = torchrun_command(options.command) if options.command else None
    if found is None or options.np is not None:
        return options
    return replace(options, np=1 if found.num_ranks is None else found.num_ranks)
