"""Functions started by ``horovod.spark.run``, in the Spark session that is open here.

It is the public twin of Databricks' HorovodRunner: every rank is a process below a Spark task.
"""

import contextlib
import shutil
import subprocess
import sys
import threading
import traceback
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

from hvdprof.collect.auto.recorded_function import RankEnd
from hvdprof.errors import EnvironmentNotReadyError, MissingExtraError
from hvdprof.launch.functions.function_job import FunctionJob, call_session
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.environment import PASS_MARK
from hvdprof.launch.processes.interruption import OrphanGuard
from hvdprof.launch.processes.launch_process import Launch, LaunchOutcome
from hvdprof.launch.processes.marked_processes import end_marked
from hvdprof.rundir.failures.log_prefixes import TAG
from hvdprof.rundir.written_file import open_run_file

_GROUP = "horovod.spark.run.{number}"
_JOB_THREAD = "(run_spark)"
_POINTS_TO_THE_JOB = "see the error above"


class SparkContext(Protocol):
    """What is used of ``pyspark.SparkContext``."""

    master: str
    defaultParallelism: int  # noqa: N815
    pythonExec: str  # noqa: N815

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        """End the jobs of a group."""


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Starts the ranks of a function as tasks of the active Spark session."""

    function: FunctionJob

    def require(self, size: int) -> None:
        """Check that Spark is there, and a session of this host alone has what the ranks need.

        What executors of a cluster have is only known there.

        Raises:
            MissingExtraError: pyspark is not installed.
            EnvironmentNotReadyError: There is no session, this is not the main thread, or a local
                session has too few tasks or a Python without Horovod.
        """
        context = active_context()
        if threading.current_thread() is not threading.main_thread():
            raise EnvironmentNotReadyError(
                "horovod.spark.run can only be called on the main thread.",
                hint="launcher='horovod.run' starts ranks on this host from any thread.",
            )
        if not context.master.startswith("local"):
            return
        slots = context.defaultParallelism
        if slots < size:
            raise EnvironmentNotReadyError(
                f"The Spark session {context.master} runs {slots} tasks at a time, {size} ranks "
                "need as many.",
                hint=f"SparkSession.builder.master('local[{size}]').getOrCreate()",
            )
        if not _has_horovod(context.pythonExec):
            raise EnvironmentNotReadyError(
                f"The Python of the Spark session ({context.pythonExec}) has no hvdprof with "
                "Horovod.",
                hint="Before the session is made: os.environ['PYSPARK_PYTHON'] = sys.executable",
            )

    def command(self, job: Job) -> list[str]:
        """``horovod.spark.run NAME num_proc=N``."""
        return ["horovod.spark.run", *job.program[1:], f"num_proc={job.size}"]

    def run(self, launch: Launch) -> LaunchOutcome:
        """Run a launch to its end; what the ranks returned is in the function's ``values``."""
        import horovod.spark
        from horovod.spark.driver import job_id

        context = active_context()
        mark = uuid.uuid4().hex

        def end() -> None:
            # The mark finds ranks on this host; those on other hosts end with their tasks.
            context.cancelJobGroup(_GROUP.format(number=job_id.JOB_ID))
            end_marked(mark, None)

        with (
            self.function.for_ranks(launch) as recorded,
            TaskLines.into(launch.paths.stdout) as stdout,
            TaskLines.into(launch.paths.stderr) as stderr,
        ):

            def call() -> Sequence[RankEnd]:
                with errors_of_the_job(stderr):
                    ends: Sequence[RankEnd] = horovod.spark.run(
                        recorded,
                        num_proc=launch.job.size,
                        use_gloo=True,
                        env={**launch.job.environment, PASS_MARK: mark},
                        stdout=stdout,
                        stderr=stderr,
                        verbose=0,
                    )
                return ends

            guard = OrphanGuard.of_mark(mark)
            try:
                ended = call_session(call, launch, end)
            finally:
                end_marked(mark, None)
                guard.dismiss()
        return self.function.take_back(ended.ends, launch, ended.outcome)


class TaskLines:
    """The output of the tasks that Horovod streams back, as whole lines with the task's number.

    Without that, explanations of failures would take the number of the task for that of the rank.
    What still comes after the end is dropped.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._rest = ""
        self._is_over = False
        self._lock = threading.Lock()

    @classmethod
    @contextlib.contextmanager
    def into(cls, path: Path) -> Iterator["TaskLines"]:
        """Append to a file as long as the context lasts."""
        with open_run_file(path) as file:
            lines = cls(file)
            try:
                yield lines
            finally:
                lines.write("\n" if lines._rest else "")
                with lines._lock:
                    lines._is_over = True

    def write(self, text: str) -> int:
        """Write the lines that are complete with this text."""
        with self._lock:
            if self._is_over:
                return len(text)
            *lines, self._rest = (self._rest + text).split("\n")
            self._file.writelines(f"{_with_task(line)}\n" for line in lines)
            self._file.flush()
        return len(text)

    def flush(self) -> None:
        """Nothing: whole lines are flushed when they come."""


@contextlib.contextmanager
def errors_of_the_job(output: "TaskLines") -> Iterator[None]:
    """Around ``horovod.spark.run``, whose own error may only point to that of its Spark job.

    The job runs in a thread; what ends it there is written out, and raised where it is the cause.
    """
    seen: list[BaseException] = []
    show = threading.excepthook

    def note(arguments: threading.ExceptHookArgs) -> None:
        if arguments.thread is None or not arguments.thread.name.endswith(_JOB_THREAD):
            show(arguments)
        elif arguments.exc_value is not None:
            seen.append(arguments.exc_value)
            output.write("".join(traceback.format_exception(arguments.exc_value)))

    threading.excepthook = note
    try:
        yield
    except Exception as error:
        if seen and _POINTS_TO_THE_JOB in str(error):
            raise seen[-1] from error
        raise
    finally:
        threading.excepthook = show


def _with_task(line: str) -> str:
    # Horovod tags lines with the number of the task, which need not be that of the rank.
    tag = TAG.match(line)
    return f"task {tag['rank']}: {line[tag.end() :]}" if tag else line


def _has_horovod(python: str) -> bool:
    if shutil.which(python) == sys.executable:
        return True
    try:
        found = subprocess.run(
            [python, "-c", "import horovod, hvdprof"], capture_output=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return found.returncode == 0


def active_context() -> SparkContext:
    """The Spark context of this process.

    Raises:
        MissingExtraError: pyspark is not installed.
        EnvironmentNotReadyError: There is none.
    """
    try:
        import pyspark
    except ImportError as error:
        raise MissingExtraError("Running a function on Spark", extra="spark") from error
    context = pyspark.SparkContext._active_spark_context
    if context is None:
        raise EnvironmentNotReadyError(
            "There is no Spark session in this process.",
            hint="SparkSession.builder.master('local[2]').getOrCreate(), or that of your cluster",
        )
    return cast(SparkContext, context)
