"""Timeline profiler and scaling-efficiency analyzer for Horovod.

Ten functions do most of the work; ``help(hvdprof.analyze_run)`` explains one of them:

    measure              start a script at several numbers of ranks, and record it
    analyze_run          how well a run scales, what costs most, and why
    analyze_files        the same of timelines, logs and traces of other tools
    compare              two runs: regressed, improved, equal or inconclusive
    history              a metric over many runs
    predict              efficiency at other numbers of ranks
    scaling_of_files     efficiency from speeds that are known
    watch                follow a running job
    write_report         an analysis as HTML, Markdown, JSON or CSV
    load_tables          the tables of a run as pandas frames

In a notebook the last line of a cell shows a result, and ``%load_ext hvdprof`` brings
``%%hvdprof run --np 2``, which measures the script in its cell.

The names of ``hvdprof.api`` that stay from version to version are here, too. They are declared in
``__init__.pyi``.
"""

import importlib

from hvdprof.errors import HvdprofError as HvdprofError

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """A name of ``hvdprof.api.__all__``; importing the package alone imports none of them.

    Raises:
        AttributeError: There is no such name.
    """
    if not name.startswith("_"):
        api = importlib.import_module(f"{__name__}.api")
        if name in api.__all__:
            value: object = getattr(api, name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext hvdprof`` calls: the cell magic ``%%hvdprof``."""
    importlib.import_module(f"{__name__}.cli.measuring.notebook_cell").register(shell)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(
        [*importlib.import_module(f"{__name__}.api").__all__, "HvdprofError", "__version__"]
    )
