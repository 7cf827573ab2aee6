"""hvdprof from Python: measure, load a run directory or any files, analyze, write a report.

    import hvdprof

    analysis = hvdprof.analyze_run("runs/20261120-224841-bench")
    print(analysis)                         # the verdict; a notebook shows the first screen
    analysis.summary()                      # its numbers in a flat dictionary
    hvdprof.write_report(analysis, "scaling.json")

    log = hvdprof.load_run("nccl_tests.txt")    # or a timeline, or several files in a list
    print(log.tables["nccl_tests"])

    measured = hvdprof.FunctionRunner(np=[1, 2]).run(train, learning_rate=0.001)
    print(measured.analyze())               # docs/howto/python.md

All tables are pandas frames whose columns, dtypes and units are declared in ``hvdprof.model``
and listed in docs/reference/tables.md.

A module of this package is imported when one of its names is used first: the command line prints
its help without pandas.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hvdprof.api.analysis import limit_results as limit_results, write_report
    from hvdprof.api.attaching import (
        AttachedFiles as AttachedFiles,
        AttachedJob as AttachedJob,
        attach as attach,
    )
    from hvdprof.api.comparison import (
        Comparison as Comparison,
        ComparisonOutcome as ComparisonOutcome,
        GateResult as GateResult,
        History as History,
        compare,
        histories_of_analyses as histories_of_analyses,
        history,
        waterfall_diff as waterfall_diff,
    )
    from hvdprof.api.options import fault_environment as fault_environment
    from hvdprof.api.forecast_scoring import (
        ForecastScores as ForecastScores,
        score_forecasts as score_forecasts,
    )
    from hvdprof.api.functions import FunctionRun as FunctionRun, FunctionRunner, HorovodRunner
    from hvdprof.api.machine import (
        Finding as Finding,
        InstallRequest as InstallRequest,
        InstallResult as InstallResult,
        MachineReport as MachineReport,
        check_machine,
        install_horovod as install_horovod,
    )
    from hvdprof.api.measured_runs import (
        measure,
        options_of,
        plan_measurement as plan_measurement,
        plan_resume as plan_resume,
        resume,
    )
    from hvdprof.api.measurement import Measurement as Measurement, PlannedLaunch as PlannedLaunch
    from hvdprof.api.machine import measure_net as measure_net
    from hvdprof.api.options import (
        KNOWN_MODELS as KNOWN_MODELS,
        BenchOptions,
        CompareOptions as CompareOptions,
        FunctionOptions as FunctionOptions,
        NetOptions as NetOptions,
        PredictOptions,
        RunOptions,
        SelftestOptions as SelftestOptions,
        TuneOptions as TuneOptions,
    )
    from hvdprof.api.paired_measurement import PairedMeasurement as PairedMeasurement
    from hvdprof.api.prediction import (
        Forecast as Forecast,
        ThroughputForecast as ThroughputForecast,
        predict,
        predict_stated as predict_stated,
        predict_throughput,
    )
    from hvdprof.api.measured_runs import (
        PassProgress as PassProgress,
        PassRecord as PassRecord,
        SilentProgress as SilentProgress,
        Stall as Stall,
        SweepProgress as SweepProgress,
        launch_title as launch_title,
        segment_title as segment_title,
    )
    from hvdprof.api.run_entries import is_run_directory as is_run_directory, list_runs
    from hvdprof.api.runs import (
        ProgressCallback as ProgressCallback,
        all_tables,
        analyze_files,
        analyze_run,
        is_nsys_export as is_nsys_export,
        load_run,
        nsys_events as nsys_events,
        numba_refusal as numba_refusal,
        scaling_of_files,
        scaling_of_text,
        slow_hint as slow_hint,
        small_text as small_text,
    )
    from hvdprof.api.selftest import (
        CaseResult as CaseResult,
        Selftest as Selftest,
        SelftestMeasurement as SelftestMeasurement,
    )
    from hvdprof.api.measured_runs import (
        job_script as job_script,
        kubernetes_job as kubernetes_job,
        queue as queue,
    )
    from hvdprof.api.tables import Tables as Tables, load_tables
    from hvdprof.api.live import Look as Look, watch, watching as watching
    from hvdprof.api.tuning.measured_tuning import (
        RacePlan as RacePlan,
        TuningMeasurement as TuningMeasurement,
        TuningProgress as TuningProgress,
        load_tuning as load_tuning,
    )

__all__ = [
    "BenchOptions",
    "FunctionRunner",
    "HorovodRunner",
    "PredictOptions",
    "RunOptions",
    "all_tables",
    "analyze_files",
    "analyze_run",
    "check_machine",
    "compare",
    "history",
    "list_runs",
    "load_run",
    "load_tables",
    "measure",
    "options_of",
    "predict",
    "predict_throughput",
    "resume",
    "scaling_of_files",
    "scaling_of_text",
    "watch",
    "write_report",
]
"""The names that stay from version to version, each with an example; `import hvdprof` has them too.

Further names serve the command line and the dashboard.
"""

_MODULES: dict[str, tuple[str, ...]] = {
    "analysis": ("limit_results", "write_report"),
    "attaching": ("AttachedFiles", "AttachedJob", "attach"),
    "comparison": (
        *("Comparison", "GateResult", "History", "ComparisonOutcome", "compare"),
        *("histories_of_analyses", "history", "waterfall_diff"),
    ),
    "forecast_scoring": ("ForecastScores", "score_forecasts"),
    "functions": ("FunctionRun", "FunctionRunner", "HorovodRunner"),
    "live": ("Look", "watch", "watching"),
    "machine": (
        *("Finding", "InstallRequest", "InstallResult", "MachineReport", "check_machine"),
        *("install_horovod", "measure_net"),
    ),
    "measured_runs": (
        *("PassProgress", "PassRecord", "SilentProgress", "Stall", "SweepProgress", "job_script"),
        *("kubernetes_job", "launch_title", "measure", "options_of", "plan_measurement"),
        *("plan_resume", "queue", "resume", "segment_title"),
    ),
    "measurement": ("Measurement", "PlannedLaunch"),
    "options": (
        *("KNOWN_MODELS", "BenchOptions", "CompareOptions", "FunctionOptions", "NetOptions"),
        *("PredictOptions", "RunOptions", "SelftestOptions", "TuneOptions", "fault_environment"),
    ),
    "paired_measurement": ("PairedMeasurement",),
    "prediction": (
        *("Forecast", "ThroughputForecast", "predict", "predict_stated", "predict_throughput"),
    ),
    "run_entries": ("is_run_directory", "list_runs"),
    "runs": (
        *("ProgressCallback", "all_tables", "analyze_files", "analyze_run", "is_nsys_export"),
        *("load_run", "nsys_events", "numba_refusal", "scaling_of_files", "scaling_of_text"),
        *("slow_hint", "small_text"),
    ),
    "selftest": ("CaseResult", "Selftest", "SelftestMeasurement"),
    "tables": ("Tables", "load_tables"),
    "tuning.measured_tuning": ("RacePlan", "TuningMeasurement", "TuningProgress", "load_tuning"),
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
    """The names that stay."""
    return sorted(__all__)
