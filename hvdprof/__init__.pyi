from hvdprof.api import (
    BenchOptions as BenchOptions,
)
from hvdprof.api import (
    FunctionRunner as FunctionRunner,
)
from hvdprof.api import (
    HorovodRunner as HorovodRunner,
)
from hvdprof.api import (
    PredictOptions as PredictOptions,
)
from hvdprof.api import (
    RunOptions as RunOptions,
)
from hvdprof.api import (
    all_tables as all_tables,
)
from hvdprof.api import (
    analyze_files as analyze_files,
)
from hvdprof.api import (
    analyze_run as analyze_run,
)
from hvdprof.api import (
    check_machine as check_machine,
)
from hvdprof.api import (
    compare as compare,
)
from hvdprof.api import (
    history as history,
)
from hvdprof.api import (
    list_runs as list_runs,
)
from hvdprof.api import (
    load_run as load_run,
)
from hvdprof.api import (
    load_tables as load_tables,
)
from hvdprof.api import (
    measure as measure,
)
from hvdprof.api import (
    options_of as options_of,
)
from hvdprof.api import (
    predict as predict,
)
from hvdprof.api import (
    predict_throughput as predict_throughput,
)
from hvdprof.api import (
    resume as resume,
)
from hvdprof.api import (
    scaling_of_files as scaling_of_files,
)
from hvdprof.api import (
    scaling_of_text as scaling_of_text,
)
from hvdprof.api import (
    write_report as write_report,
)

__version__: str
