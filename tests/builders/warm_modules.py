"""What a measuring command of hvdprof imports, and what it asks of the installed Horovod.

Imported once by the process that ``running_command`` forks its commands from.
"""

import contextlib

from hvdprof.api import analyze_run, load_run, write_report
from hvdprof.cli.main import main
from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.run.bench_run import read_for_resuming
from hvdprof.launch.run.script_run import prepare_script
from hvdprof.machine.install.horovod_features import require_horovod
from hvdprof.report import terminal

IMPORTED = (
    analyze_run,
    load_run,
    main,
    prepare_script,
    read_for_resuming,
    terminal,
    write_report,
)

# The answer is cached: a child process imports torch and Horovod for it.
with contextlib.suppress(EnvironmentNotReadyError):
    require_horovod()
