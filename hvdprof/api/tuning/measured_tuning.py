"""Try settings against the present one, and name what pays: TuningMeasurement."""

import math
from pathlib import Path

from hvdprof.analyze.tune import tuning_result
from hvdprof.analyze.tune.finals import CONFIDENCE, Raced, joined
from hvdprof.analyze.tune.prediction_score import prediction_score
from hvdprof.analyze.tune.racing import RaceStanding as RaceStanding
from hvdprof.analyze.verdict.caveats import carried_caveats
from hvdprof.api.measured_runs import plan_measurement
from hvdprof.api.options import TuneOptions
from hvdprof.api.tuning.candidates import Choice as Choice
from hvdprof.api.tuning.candidates import check_command, check_only, choose, job_of
from hvdprof.api.tuning.race import RaceOfSettings
from hvdprof.api.tuning.race import RacePlan as RacePlan
from hvdprof.api.tuning.race import TuningProgress as TuningProgress
from hvdprof.api.tuning.settings_by_turns import JobToTune
from hvdprof.api.tuning.tuning_folder import (
    RaceBudget,
    check_folder,
    check_resumed,
    launch_length,
    present_analysis,
    with_ranks_of_torchrun,
    write_tuning,
)
from hvdprof.api.tuning.tuning_folder import load_tuning as load_tuning
from hvdprof.collect.host_facts import usable_cores
from hvdprof.errors import HvdprofError, InterruptedRunError, StorageError, UsageError
from hvdprof.launch.plan.preflight import AUTO, parse_duration
from hvdprof.launch.plan.time_budget import (
    TimeBudget,
    TimePlan,
    race_launches,
    time_plan,
    useful_budget_s,
)
from hvdprof.launch.plan.tune_options import (
    MOST_ROUNDS,
    Options,
    check_tune_options,
    present_options,
    tuned_sizes,
    with_changes,
)
from hvdprof.launch.plan.tuned_command import resumed_command, tuned_command, tuned_setting
from hvdprof.launch.processes.interruption import interruptible
from hvdprof.launch.run.run_folder import new_run_folder
from hvdprof.launch.run.script_launcher import find_tools, launcher_name
from hvdprof.launch.run.sweep_state import SilentProgress, SweepProgress
from hvdprof.model.notes import texts
from hvdprof.model.results.comparison import DEFAULT_MARGIN
from hvdprof.model.results.tuning import Candidate as Candidate
from hvdprof.model.results.tuning import Estimate as Estimate
from hvdprof.model.results.tuning import Tuning
from hvdprof.model.run import RunAnalysis as RunAnalysis
from hvdprof.report.shown_result import shown
from hvdprof.rundir.launch_format import ddp_call
from hvdprof.rundir.layout import TuningPaths
from hvdprof.rundir.manifest import Status

__all__ = ["RacePlan", "TuningMeasurement", "TuningProgress", "load_tuning"]


SHORTEST_TIMEOUT_S = 120.0
TIMEOUT_LAUNCHES = 5.0
"""A setting hangs that makes no step for so many launches of the present one."""


class TuningMeasurement:
    """A tuning that is ready to start; ``measure`` does all of it.

    Attributes:
        folder: Where its runs and its result are saved.
        present: The run of the present setting.
        num_ranks: The number of ranks that is tuned.
    """

    def __init__(
        self,
        options: TuneOptions,
        *,
        progress: SweepProgress | None = None,
        shown: TuningProgress | None = None,
        margin: float = DEFAULT_MARGIN,
    ) -> None:
        """Check the options and prepare the present setting; nothing is written.

        Args:
            options: What is tuned, and how.
            progress: Shows the progress of launches.
            shown: Shows the progress of the tuning.
            margin: Smallest gain that matters, a share of the step time.

        Raises:
            UsageError: An option cannot be used, or the budget is too short.
            EnvironmentNotReadyError: This machine cannot run the job.
            StorageError: The folder holds something, or is a file.
        """
        check_tune_options(options)
        check_command(options.command)
        check_only(options)
        if not 0 < margin < 1:
            raise UsageError(
                f"A margin of {100 * margin:g} % is not between 0 and 100 %.", hint="--margin 2%"
            )
        self._options, self._margin = options, margin
        self._progress, self._shown = progress or SilentProgress(), shown
        self._tools = find_tools(AUTO if options.models else launcher_name(options))
        on_gpus = self._tools.horovod.cuda_available and options.device != "cpu"
        sizes = tuned_sizes(
            with_ranks_of_torchrun(options),
            num_cores=usable_cores(),
            num_gpus=self._tools.horovod.cuda_device_count if on_gpus else 0,
        )
        self.num_ranks = sizes[-1]
        given = options.folder if options.resume is None else Path(options.resume)
        self.folder = new_run_folder(given, options.name or "tune")
        self._paths = TuningPaths(self.folder)
        self._present_options = present_options(options, sizes, self._paths.present)
        self.present = plan_measurement(self._present_options, progress=progress, tools=self._tools)
        limit = math.inf if options.budget is None else parse_duration("--budget", options.budget)
        self._budget = TimeBudget(limit)
        self._race_budget = RaceBudget(self._budget)
        if self.is_resumed:
            check_resumed(self._paths, self.present.manifest, self.num_ranks)
        else:
            check_folder(self.folder)
            plan, least_s = self.estimate()
            self._budget.require(plan.planned_s or 0.0, least_s, plan.basis)

    @property
    def command(self) -> tuple[str, ...]:
        """The command of the script, or of ``bench``, after its variables; secrets masked."""
        return tuple(self.present.shown_command)

    @property
    def is_resumed(self) -> bool:
        """Whether the present setting was measured by an earlier tuning."""
        return self._options.resume is not None

    @property
    def runs_to_its_end(self) -> bool:
        """Whether a launch is a script without a number of steps, which nothing bounds."""
        return self._options.models is None and self._options.num_steps is None

    def estimate(self) -> tuple[TimePlan, float]:
        """How long the present setting takes by earlier runs, and seconds of it with a race.

        The seconds are 0 where nothing is known.
        """
        plan = time_plan(self.present.manifest, self.folder.parent)
        launch_s = (plan.planned_s or 0.0) / max(len(self.present.manifest.passes), 1)
        return plan, (plan.planned_s or 0.0) + race_launches(1) * launch_s

    @property
    def budget_s(self) -> float:
        """Seconds that may be used; infinite without a budget."""
        return self._budget.limit_s

    def measure(self) -> tuple[Tuning, HvdprofError | None]:
        """Measure the present setting, race the others, check what wins; save the result.

        Returns:
            The result, and what ended the tuning early: an interruption, a full disk, a present
            setting that fails beside the others, or a job that can be launched no more.

        Raises:
            UsageError: ``--only`` names no setting.
            EnvironmentNotReadyError: A host cannot run its part; no rank was started.
            SweepIncompleteError: The present setting fails.
            InterruptedRunError: Ctrl-C or SIGTERM before anything was tried.
            StorageError: The disk is full, or a folder cannot be made.
        """
        with interruptible():
            try:
                analysis = self._measured_present()
                job = job_of(analysis, self._options, self._tools, self._margin)
                choice = self._race_budget.that_fit(choose(job, self._options))
                if self._shown is not None:
                    self._shown.present_measured(analysis, choice, self._plan(choice))
            except (InterruptedRunError, StorageError) as error:
                if self.present.folder.is_dir():
                    error.hint = f"No setting was tried. The present one: {self.present.folder}"
                raise
            raced, failure = self._raced(choice)
            try:
                return self._saved(analysis, choice, raced, failure)
            except InterruptedRunError as error:
                # ``interruptible`` ignores further signals: this time it is written.
                tuning, failure = self._saved(analysis, choice, raced, failure)
                return tuning, failure or error

    def _raced(self, choice: Choice) -> tuple[Raced, HvdprofError | None]:
        """The race and the check, where there is anything to try."""
        if not choice.candidates:
            too_long_s = self._race_budget.too_long_s
            raced = Raced(margin=self._margin, untried=choice.untried, too_long_s=too_long_s)
            return raced, None
        race = RaceOfSettings(
            job=JobToTune(self._bounded(), self.num_ranks, self._tools, self._progress),
            paths=self._paths,
            plan=self._plan(choice),
            margin=self._margin,
            budget=self._budget,
            shown=self._shown,
        )
        return race.run(choice)

    def _saved(
        self, analysis: RunAnalysis, choice: Choice, raced: Raced, failure: HvdprofError | None
    ) -> tuple[Tuning, HvdprofError | None]:
        """The result, written to its folder; the error where that fails."""
        tuning = shown(self._result(analysis, choice, raced, failure))
        try:
            write_tuning(tuning, self.folder)
        except StorageError as error:
            # The result is worth more than its file.
            return tuning, failure or error
        if failure is not None:
            failure.hint = f"The result so far: hvdprof tune {self.folder}"
        return tuning, failure

    def _measured_present(self) -> RunAnalysis:
        """The analysis of the present setting, and the length of its launches."""
        analysis = present_analysis(self.present, self._paths.present, self.num_ranks)
        self._race_budget.launch = launch_length(
            analysis, self.num_ranks, self._present_options.num_steps
        )
        return analysis

    def _bounded(self) -> Options:
        """The options of the race; a setting that hangs ends sooner than an unknown job."""
        fits = self._race_budget
        bound_s = max(SHORTEST_TIMEOUT_S, TIMEOUT_LAUNCHES * fits.launch.seconds())
        changes: dict[str, object] = {"timeout_s": min(self._present_options.timeout_s, bound_s)}
        if fits.fewer_steps is not None:
            changes["num_steps"] = fits.fewer_steps
        return with_changes(self._present_options, changes)

    def _plan(self, choice: Choice) -> RacePlan:
        repeats, steps = self._options.repeats, self._race_budget.fewer_steps
        launch_s = self._race_budget.launch.seconds(steps)
        rounds = min(MOST_ROUNDS, repeats)
        left_s = self._budget.left_s
        return RacePlan(len(choice.candidates), launch_s, rounds, repeats, steps, left_s)

    def _result(
        self, analysis: RunAnalysis, choice: Choice, raced: Raced, failure: HvdprofError | None
    ) -> Tuning:
        named = joined(raced.named)
        setting = tuned_setting(named, self._present_options)
        line = tuned_command(setting, self._present_options, self.num_ranks) if raced.named else ""
        status = "done"
        if failure is not None:
            is_interrupted = isinstance(failure, InterruptedRunError)
            status = str(Status.INTERRUPTED if is_interrupted else Status.FAILED)
        limits = [*tuning_result.caveats(raced), *texts(carried_caveats(analysis))]
        next_line = ""
        if raced.too_long_s is not None:
            budget_s, margin = useful_budget_s(raced.too_long_s), f"{100 * self._margin:g}%"
            words = [] if self._margin == DEFAULT_MARGIN else ["--margin", margin]
            next_line = resumed_command(self._options, self.folder, budget_s, words)
        if (fits := self._race_budget).fewer_steps is not None:
            steps = f"{fits.fewer_steps} of {fits.launch.num_steps} steps"
            limits.insert(0, f"The budget shortened the launches of the race to {steps}.")
        trials = tuning_result.trials(raced)
        checks = tuning_result.checks(raced)
        confirmed = [check for check in checks if check.names == tuple(c.name for c in raced.named)]
        return Tuning(
            sentence=tuning_result.sentence(raced, setting.text, status),
            caveat=" ".join(limits),
            status=status,
            command=self.command,
            num_ranks=self.num_ranks,
            present=analysis.verdict.sentence,
            environment=dict(setting.environment),
            options=dict(setting.options),
            arguments=setting.arguments,
            line=line,
            in_code=ddp_call(named.environment),
            next_line=next_line,
            gain=confirmed[0].gain if raced.named else None,
            beyond=None if raced.named else tuning_result.beyond(raced),
            margin=self._margin,
            confidence=CONFIDENCE,
            trials=trials,
            checks=checks,
            score=prediction_score(trials, checks),
            elapsed_s=round(self._budget.used_s, 1),
            folder=str(self.folder),
            notes=choice.notes,
        )
