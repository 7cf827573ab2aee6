"""hvdprof from Python: measure, load a run directory or any files, analyze, write a report.

    from pathlib import Path
    from hvdprof.api import analyze_run, load_run, write_report

    analysis = analyze_run(load_run(Path("runs/20261120-224841-bench")))
    print(analysis.verdict.sentence)
    write_report(analysis, Path("scaling.json"))

    log = load_run("nccl_tests.txt")        # or a timeline, or several files in a list
    print(log.tables["nccl_tests"])

    measured = FunctionRunner(np=[1, 2]).run(train, learning_rate=0.001)    # docs/howto/python.md
    print(measured.analyze().verdict.sentence)

All tables are pandas frames whose columns, dtypes and units are declared in ``hvdprof.model``
and listed in docs/reference/tables.md.

A module of this package is imported when one of its names is used first: the command line prints
its help without pandas.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hvdprof.api.comparison import (
        Comparison,
        ComparisonOutcome,
        GateResult,
        History,
        compare,
        compare_analyses,
        histories_of_analyses,
        history,
        waterfall_diff,
    )
    from hvdprof.api.faults import (
        fault_environment,
    )
    from hvdprof.api.forecast_scoring import (
        ForecastScores,
        score_forecasts,
    )
    from hvdprof.api.functions import (
        FunctionRun,
        FunctionRunner,
        HorovodRunner,
    )
    from hvdprof.api.machine import (
        Finding,
        InstallRequest,
        InstallResult,
        MachineReport,
        check_machine,
        install_horovod,
    )
    from hvdprof.api.measured_runs import (
        measure,
        options_of,
        plan_measurement,
        plan_resume,
        resume,
    )
    from hvdprof.api.measurement import (
        Measurement,
        PlannedLaunch,
    )
    from hvdprof.api.network import (
        measure_net,
    )
    from hvdprof.api.options import (
        KNOWN_MODELS,
        BenchOptions,
        CompareOptions,
        FunctionOptions,
        NetOptions,
        PredictOptions,
        RunOptions,
        SelftestOptions,
        TuneOptions,
    )
    from hvdprof.api.paired_measurement import (
        PairedMeasurement,
    )
    from hvdprof.api.prediction import (
        Forecast,
        ThroughputForecast,
        predict,
        predict_stated,
        predict_throughput,
    )
    from hvdprof.api.progress import (
        PassProgress,
        PassRecord,
        SilentProgress,
        Stall,
        SweepProgress,
        launch_title,
    )
    from hvdprof.api.run_entries import list_runs
    from hvdprof.api.runs import (
        AttachedFiles,
        AttachedJob,
        ProgressCallback,
        all_tables,
        analyze_files,
        analyze_run,
        attach,
        is_nsys_export,
        is_run_directory,
        load_run,
        nsys_events,
        numba_refusal,
        scaling_of_files,
        scaling_of_text,
        slow_hint,
        small_text,
        write_report,
    )
    from hvdprof.api.selftest import (
        CaseResult,
        Selftest,
        SelftestMeasurement,
    )
    from hvdprof.api.slurm_job import (
        job_script,
        queue,
    )
    from hvdprof.api.tables import (
        Tables,
        load_tables,
    )
    from hvdprof.api.tuning import (
        RacePlan,
        TuningMeasurement,
        TuningProgress,
        load_tuning,
    )

__all__ = [
    "KNOWN_MODELS",
    "AttachedFiles",
    "AttachedJob",
    "BenchOptions",
    "CaseResult",
    "CompareOptions",
    "Comparison",
    "ComparisonOutcome",
    "Finding",
    "Forecast",
    "ForecastScores",
    "FunctionOptions",
    "FunctionRun",
    "FunctionRunner",
    "GateResult",
    "History",
    "HorovodRunner",
    "InstallRequest",
    "InstallResult",
    "MachineReport",
    "Measurement",
    "NetOptions",
    "PairedMeasurement",
    "PassProgress",
    "PassRecord",
    "PlannedLaunch",
    "PredictOptions",
    "ProgressCallback",
    "RacePlan",
    "RunOptions",
    "Selftest",
    "SelftestMeasurement",
    "SelftestOptions",
    "SilentProgress",
    "Stall",
    "SweepProgress",
    "Tables",
    "ThroughputForecast",
    "TuneOptions",
    "TuningMeasurement",
    "TuningProgress",
    "all_tables",
    "analyze_files",
    "analyze_run",
    "attach",
    "check_machine",
    "compare",
    "compare_analyses",
    "fault_environment",
    "histories_of_analyses",
    "history",
    "install_horovod",
    "is_nsys_export",
    "is_run_directory",
    "job_script",
    "launch_title",
    "list_runs",
    "load_run",
    "load_tables",
    "load_tuning",
    "measure",
    "measure_net",
    "nsys_events",
    "numba_refusal",
    "options_of",
    "plan_measurement",
    "plan_resume",
    "predict",
    "predict_stated",
    "predict_throughput",
    "queue",
    "resume",
    "scaling_of_files",
    "scaling_of_text",
    "score_forecasts",
    "slow_hint",
    "small_text",
    "waterfall_diff",
    "write_report",
]

_MODULES: dict[str, tuple[str, ...]] = {
    "comparison": (
        "Comparison",
        "GateResult",
        "History",
        "ComparisonOutcome",
        "compare",
        "compare_analyses",
        "histories_of_analyses",
        "history",
        "waterfall_diff",
    ),
    "faults": ("fault_environment",),
    "forecast_scoring": (
        "ForecastScores",
        "score_forecasts",
    ),
    "functions": (
        "FunctionRun",
        "FunctionRunner",
        "HorovodRunner",
    ),
    "machine": (
        "Finding",
        "InstallRequest",
        "InstallResult",
        "MachineReport",
        "check_machine",
        "install_horovod",
    ),
    "measured_runs": (
        "measure",
        "options_of",
        "plan_measurement",
        "plan_resume",
        "resume",
    ),
    "measurement": (
        "Measurement",
        "PlannedLaunch",
    ),
    "network": ("measure_net",),
    "options": (
        "KNOWN_MODELS",
        "BenchOptions",
        "CompareOptions",
        "FunctionOptions",
        "NetOptions",
        "PredictOptions",
        "RunOptions",
        "SelftestOptions",
        "TuneOptions",
    ),
    "paired_measurement": ("PairedMeasurement",),
    "prediction": (
        "Forecast",
        "ThroughputForecast",
        "predict",
        "predict_stated",
        "predict_throughput",
    ),
    "progress": (
        "PassProgress",
        "PassRecord",
        "SilentProgress",
        "Stall",
        "SweepProgress",
        "launch_title",
    ),
    "run_entries": ("list_runs",),
    "runs": (
        "AttachedFiles",
        "AttachedJob",
        "ProgressCallback",
        "all_tables",
        "analyze_files",
        "analyze_run",
        "attach",
        "is_nsys_export",
        "is_run_directory",
        "load_run",
        "nsys_events",
        "numba_refusal",
        "scaling_of_files",
        "scaling_of_text",
        "slow_hint",
        "small_text",
        "write_report",
    ),
    "selftest": (
        "CaseResult",
        "Selftest",
        "SelftestMeasurement",
    ),
    "slurm_job": (
        "job_script",
        "queue",
    ),
    "tables": (
        "Tables",
        "load_tables",
    ),
    "tuning": (
        "RacePlan",
        "TuningMeasurement",
        "TuningProgress",
        "load_tuning",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """A public name, out of the module that defines it.

    Raises:
        AttributeError: The API has no such name.
    """
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
