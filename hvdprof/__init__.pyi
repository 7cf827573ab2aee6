from hvdprof.api import (
    BenchOptions as BenchOptions,
    FunctionRunner as FunctionRunner,
    HorovodRunner as HorovodRunner,
    PredictOptions as PredictOptions,
    RunOptions as RunOptions,
    all_tables as all_tables,
    analyze_files as analyze_files,
    analyze_run as analyze_run,
    check_machine as check_machine,
    compare as compare,
    history as history,
    list_runs as list_runs,
    load_run as load_run,
    load_tables as load_tables,
    measure as measure,
    options_of as options_of,
    predict as predict,
    predict_throughput as predict_throughput,
    resume as resume,
    scaling_of_files as scaling_of_files,
    scaling_of_text as scaling_of_text,
    watch as watch,
    write_report as write_report,
)

from hvdprof.errors import HvdprofError as HvdprofError

__version__: str

def load_ipython_extension(shell: object) -> None: ...
