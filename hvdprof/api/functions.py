"""Run Horovod functions from Python and record them: FunctionRunner, HorovodRunner.

Tested in ``tests/test_run_function.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hvdprof.api.runs import analyze_run, load_run
from hvdprof.errors import HvdprofError, UsageError
from hvdprof.launch.functions.function_run import main_launch, measure_function
from hvdprof.launch.plan.run_options import HOROVOD_RUN, SPARK, FunctionOptions
from hvdprof.model.run import Run, RunAnalysis
from hvdprof.rundir.manifest import Manifest


@dataclass(frozen=True, slots=True)
class FunctionRun:
    """A function that has been run under the recorder.

    Attributes:
        folder: Its run directory.
        returned: What it returned by rank, in the first launch at the largest number of ranks.
            None stands for a rank that was ended after ``num_steps``.
        returned_by_launch: The same for every launch, by the name of its pass.
    """

    folder: Path
    returned: list[Any]
    returned_by_launch: dict[str, list[Any]]

    def load(self) -> Run:
        """The recording, as ``load_run`` returns it."""
        return load_run(self.folder)

    def analyze(self) -> RunAnalysis:
        """The finished analysis, as ``analyze_run`` returns it."""
        return analyze_run(self.load())


class FunctionRunner(FunctionOptions):
    """Runs Horovod functions from Python, a notebook included, and records them.

    >>> measured = FunctionRunner(np=1, output="runs/function", trace=False).run(train)
    >>> measured.returned
    [...]

    The function is one for ``horovod.run``: it imports ``horovod.torch`` and trains. It is sent to
    the ranks by value, so a notebook needs no module and a script no ``__main__`` guard. The
    options are those of ``FunctionOptions``.
    """

    def run(self, function: Callable[..., object], *args: object, **kwargs: object) -> FunctionRun:
        """Run a function on every rank and record it, in the launches that `hvdprof run` makes.

        Args:
            function: The training of one rank.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Raises:
            UsageError: An option cannot be used, or the function cannot be pickled.
            MissingExtraError: pyspark or ray is not installed.
            EnvironmentNotReadyError: This machine cannot run it.
            SweepIncompleteError: A launch failed; the message says why, and the run directory keeps
                what was measured.
            InterruptedRunError: Ctrl-C or SIGTERM; what was measured is kept.
            StorageError: The run directory cannot be written.
        """
        try:
            measured = measure_function(function, args, kwargs, self)
        except HvdprofError as error:
            # A traceback shows the notes of an exception, and not its hint.
            if error.hint:
                error.add_note(error.hint)
            raise
        largest = main_launch(Manifest.read(measured.folder))
        return FunctionRun(measured.folder, measured.returned[largest], measured.returned)


class HorovodRunner:
    """A replacement for Databricks' class of that name: the same call, recorded.

    >>> HorovodRunner(np=-1).run(train)
    0

    The function runs once, without Horovod's timeline; ``FunctionRunner`` has all options. The
    recording of the last call is ``last``.

    Args:
        np: Number of ranks on the open Spark session; if negative, as many processes on this host.
        driver_log_verbosity: No effect: the run directory keeps the output of the ranks.

    Raises:
        UsageError: ``np`` is 0.
    """

    def __init__(self, *, np: int, driver_log_verbosity: str = "all") -> None:
        if np == 0:
            raise UsageError("np=0: must not be 0.", hint="HorovodRunner(np=2)")
        launcher = SPARK if np > 0 else HOROVOD_RUN
        self._runner = FunctionRunner(np=abs(np), launcher=launcher, trace=False)
        self.last: FunctionRun | None = None

    def run(self, main: Callable[..., object], **kwargs: object) -> Any:
        """Run a function on every rank and record it; returns the result of rank 0.

        Args:
            main: The training of one rank.
            kwargs: Its keyword arguments.

        Raises:
            HvdprofError: As ``FunctionRunner.run``.
        """
        self.last = self._runner.run(main, **kwargs)
        return self.last.returned[0]
