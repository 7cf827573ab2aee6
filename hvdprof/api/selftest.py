"""Test hvdprof where it is used: SelftestMeasurement."""

import importlib.util
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hvdprof.api.live_selftest import LIVE_S, NUM_LIVE_STEPS, live_case, live_result
from hvdprof.api.measured_runs import plan_measurement
from hvdprof.api.measurement import Measurement
from hvdprof.api.options import (
    MODEL,
    NUM_STEPS,
    NUM_WARMUP,
    BenchOptions,
    SelftestOptions,
    cases_of,
    check_clocks,
)
from hvdprof.api.runs import analyze_run, load_run
from hvdprof.errors import HvdprofError, InterruptedRunError, StorageError, UsageError
from hvdprof.launch.plan.hosts import parse_hosts
from hvdprof.launch.plan.options import TORCHRUN, check_options
from hvdprof.launch.plan.preflight import AUTO, parse_duration
from hvdprof.launch.plan.time_budget import TimeBudget
from hvdprof.launch.plan.workload import INSTALLED_ALONE, python_program
from hvdprof.launch.run.script_launcher import Tools, find_tools
from hvdprof.model.results.selftest import (
    RIGHT,
    CaseOutcome,
    CaseResult,
    MarkAgreement,
    NamedRank,
    RecorderCost,
    Selftest,
    SelftestCase,
    judged,
)
from hvdprof.model.tables.waiting_tables import STRAGGLER_PATTERNS
from hvdprof.rundir.manifest import Manifest, Mode
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE
from hvdprof.rundir.recording.fault_plan import FAULTS

__all__ = ["CaseResult", "Selftest", "SelftestMeasurement"]

LAUNCH_S = 11.0
"""Seconds of a launch, for the estimate: about 4 s of steps, the rest are imports."""

HOST_S = 4.0
"""More seconds of a launch for each other host."""

COST_S, MARKS_S = 8.0, 30.0
HUNG_S = 60.0
MODULE_TIMEOUT_S = 180.0

_COST_MODULE = "hvdprof.bench_models.recorder_cost"
_MARKS_MODULE = "hvdprof.bench_models.gpu_marks"


class SelftestMeasurement:
    """A self-test that is ready to start.

    Attributes:
        cases: The launches, in their order.
        num_ranks: Ranks per launch.
        engine: ``horovod``; ``ddp`` where that was asked for, or Horovod is not installed.
        limit_s: No launch starts after so many seconds.
        estimate_s: What it takes, roughly.
    """

    def __init__(self, options: SelftestOptions) -> None:
        """Check the options; nothing is started.

        Raises:
            UsageError: An option cannot be used.
            EnvironmentNotReadyError: This machine cannot run a launch.
            StorageError: The folder for the runs holds something.
        """
        check_options(options)
        self._options = options
        self.engine = options.engine or _engine_here(options)
        self._tools: Tools = find_tools(TORCHRUN if self.engine == DDP_ENGINE else AUTO)
        hosts = parse_hosts(options.hosts) if options.hosts else ()
        slots = sum(host.slots for host in hosts)
        self.num_ranks = options.np or slots or 2
        if self.num_ranks < 2:
            raise UsageError(
                f"--hosts {options.hosts} has one slot; a self-test needs two ranks or more.",
                hint="--hosts h1:1,h2:1",
            )
        if options.folder is not None and options.folder.exists() and any(options.folder.iterdir()):
            raise StorageError(f"{options.folder} holds something.", hint="Give a new folder.")
        self.cases = (live_case(self.num_ranks),) if options.live else cases_of(self.num_ranks)
        self.limit_s = parse_duration("--limit", options.limit)
        planned = self._plan(Path("unused"))
        self.device = planned.settings.device
        self.controller = planned.settings.controller
        per_launch_s = (LIVE_S if options.live else LAUNCH_S) + HOST_S * max(0, len(hosts) - 1)
        marks_s = MARKS_S if self.has_gpu else 0.0
        others_s = 0.0 if options.live else COST_S + marks_s
        self.estimate_s = per_launch_s * len(self.cases) + others_s

    @property
    def has_gpu(self) -> bool:
        """Whether CUDA events are compared with the profiler."""
        return self.device == "cuda"

    def measure(self, on_result: Callable[[CaseResult], None]) -> Selftest:
        """Run the launches one after the other, then measure the recorder.

        Args:
            on_result: Called with each result.

        Raises:
            InterruptedRunError: Ctrl-C or SIGTERM.
            StorageError: The runs cannot be written.
        """
        budget = TimeBudget(self.limit_s)
        results = []
        with tempfile.TemporaryDirectory(prefix="hvdprof-selftest-") as temporary:
            parent = self._options.folder or Path(temporary)
            for number, case in enumerate(self.cases, start=1):
                if budget.left_s <= 0:
                    result = CaseResult(
                        case=case, outcome=CaseOutcome.NOT_RUN, reason="--limit was reached"
                    )
                else:
                    result = self._result(case, parent / f"{number:02}")
                    is_again = result.outcome not in RIGHT and not self._options.live
                    if is_again and budget.left_s > 0:
                        # Another process of the machine may have taken the cores meanwhile.
                        again = self._result(case, parent / f"{number:02}-again")
                        result = replace(again, attempts=2)
                on_result(result)
                results.append(result)
        not_measured: list[str] = []
        is_live = self._options.live
        return Selftest(
            num_ranks=self.num_ranks,
            hosts=self._options.hosts or "",
            device=self.device,
            controller=self.controller,
            engine=self.engine,
            cases=tuple(results),
            recorder=None if is_live else self._recorder_cost(not_measured),
            marks=() if is_live else self._marks(not_measured),
            not_measured=tuple(not_measured),
            duration_s=round(budget.used_s, 1),
        )

    def _plan(self, folder: Path) -> Measurement:
        options = self._options
        planned = plan_measurement(
            BenchOptions(
                models=MODEL,
                np=self.num_ranks,
                engine=self.engine,
                num_steps=NUM_LIVE_STEPS if options.live else NUM_STEPS,
                light=options.live,
                num_warmup_batches=NUM_WARMUP,
                repeats=1,
                interleave=False,
                timeout_s=HUNG_S,
                hosts=options.hosts,
                controller=options.controller,
                launcher=options.launcher,
                device=options.device,
                output=folder,
                name="selftest",
                net=False,
            ),
            tools=self._tools,
        )
        manifest = planned.manifest
        manifest.passes = [record for record in manifest.passes if record.mode == Mode.THROUGHPUT]
        return planned

    def _result(self, case: SelftestCase, folder: Path) -> CaseResult:
        try:
            planned = self._plan(folder)
            sweep = planned.started_sweep()
            sweep.environment = {**sweep.environment, FAULTS: case.fault}
            if self._options.live:
                return live_result(case, planned)
            planned.measure()
            analysis = analyze_run(load_run(folder))
        except (InterruptedRunError, StorageError):
            raise
        except HvdprofError as error:
            return CaseResult(case=case, outcome=CaseOutcome.FAILED, reason=_reason(folder, error))
        late = analysis.derived["stragglers"]
        rows = late[late["pattern"].isin(STRAGGLER_PATTERNS).to_numpy()]
        named = tuple(
            NamedRank(rank=int(rank), phase=str(phase), cost_ns=float(cost_ns))
            for rank, phase, cost_ns in zip(
                rows["rank"], rows["phase"], rows["cost_ns"], strict=True
            )
        )
        step_ns = float(analysis.run.steps["dur_ns"].median())
        result = judged(case, named, step_ns, check_clocks(folder, case, self.num_ranks))
        return replace(result, other_cores=Manifest.read(folder).passes[0].other_cpu_cores)

    def _recorder_cost(self, not_measured: list[str]) -> RecorderCost | None:
        printed = _module_output(
            *(_COST_MODULE, "--pairs", "10", "--steps", "20"),
            *("--device", "cuda" if self.has_gpu else "cpu"),
        )
        try:
            found = json.loads(printed.text)
            low, middle, high = found["cpu"]
            return RecorderCost(
                model="mnist, batch 64",
                step_ns=found["step_s"] * 1e9,
                direct_ns=found["direct_s"] * 1e9,
                cpu_ratio=middle,
                cpu_ratio_low=low,
                cpu_ratio_high=high,
            )
        except (ValueError, KeyError, TypeError):
            not_measured.append(f"The cost of the recorder: {printed.error}")
            return None

    def _marks(self, not_measured: list[str]) -> tuple[MarkAgreement, ...]:
        if not self.has_gpu:
            not_measured.append("CUDA events against torch.profiler: no GPU is used here.")
            return ()
        printed = _module_output(_MARKS_MODULE)
        try:
            return tuple(MarkAgreement(**mark) for mark in json.loads(printed.text)["marks"])
        except (ValueError, KeyError, TypeError):
            not_measured.append(f"CUDA events against torch.profiler: {printed.error}")
            return ()


@dataclass(frozen=True, slots=True)
class _Printed:
    """What a module printed, and why that may be nothing."""

    text: str
    error: str


def _module_output(*module: str) -> _Printed:
    try:
        done = subprocess.run(
            python_program(*module),
            env={**os.environ, **INSTALLED_ALONE},
            capture_output=True,
            text=True,
            timeout=MODULE_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return _Printed("", str(error))
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return _Printed(done.stdout, lines[-1] if lines else f"it ended with code {done.returncode}.")


def _engine_here(options: SelftestOptions) -> str:
    if options.launcher == TORCHRUN:
        return DDP_ENGINE
    asks_horovod = options.hosts or options.controller != AUTO or options.launcher != AUTO
    is_there = importlib.util.find_spec("horovod") is not None
    return HOROVOD_ENGINE if asks_horovod or is_there else DDP_ENGINE


def _reason(folder: Path, error: HvdprofError) -> str:
    """Why a launch has no result: the failure in its manifest, else the error itself."""
    try:
        records = Manifest.read(folder).passes
    except HvdprofError:
        return error.message
    failures = [
        segment.failure.reason
        for record in records
        for segment in record.segments
        if segment.failure
    ]
    return failures[0] if failures else error.message
