import io
import sys
import threading

import pytest

from hvdprof.errors import EnvironmentNotReadyError, MissingExtraError
from hvdprof.launch.functions import on_spark
from hvdprof.launch.functions.function_job import FunctionJob
from hvdprof.launch.functions.in_python import OnRay
from hvdprof.launch.functions.on_spark import OnSpark, TaskLines, errors_of_the_job
from tests.builders.launches import launch_into

JOB = FunctionJob(b"")


def lines_of(*texts):
    file = io.StringIO()
    lines = TaskLines(file)
    for text in texts:
        lines.write(text)
    return file.getvalue()


def test_lines_come_whole_and_name_the_task_instead_of_a_rank():
    assert lines_of("[1]<std", "err>:Value", "Error\n[0]<stdout>:x\n") == (
        "task 1: ValueError\ntask 0: x\n"
    )


def test_lines_without_a_task_stay_as_they_are():
    assert lines_of("a [1]<stderr>:b\n\n") == "a [1]<stderr>:b\n\n"


def test_the_last_line_is_written_and_later_lines_are_dropped(tmp_path):
    path = tmp_path / "stdout.txt"
    path.write_text("before\n")
    with TaskLines.into(path) as lines:
        lines.write("[0]<stdout>:half a line")
    lines.write("late\n")

    assert path.read_text() == "before\ntask 0: half a line\n"


def test_lines_of_several_tasks_do_not_mix():
    file = io.StringIO()
    lines = TaskLines(file)
    writers = [
        threading.Thread(target=lambda n=n: [lines.write(f"[{n}]<stdout>:x\n") for _ in range(200)])
        for n in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert sorted(set(file.getvalue().splitlines())) == [f"task {n}: x" for n in range(4)]
    assert len(file.getvalue().splitlines()) == 800


def in_thread_of_the_job(error):
    def run_spark():
        raise error

    thread = threading.Thread(target=run_spark)
    thread.start()
    thread.join()


def test_the_cause_of_a_job_that_failed_is_raised_instead_of_a_pointer_to_it():
    file = io.StringIO()

    with pytest.raises(ModuleNotFoundError, match="horovod"), errors_of_the_job(TaskLines(file)):
        in_thread_of_the_job(ModuleNotFoundError("No module named 'horovod'"))
        raise Exception("Spark job has failed, see the error above.")
    assert "ModuleNotFoundError" in file.getvalue()


def test_a_job_that_is_cancelled_after_a_failure_is_only_written_down():
    file = io.StringIO()

    with pytest.raises(RuntimeError, match="non-zero"), errors_of_the_job(TaskLines(file)):
        in_thread_of_the_job(ValueError("cancelled"))
        raise RuntimeError("one or more processes exited with non-zero status")
    assert "ValueError: cancelled" in file.getvalue()


def test_other_threads_fail_as_ever(monkeypatch):
    seen = []
    monkeypatch.setattr(threading, "excepthook", seen.append)

    def other():
        raise ValueError("not of Spark")

    with errors_of_the_job(TaskLines(io.StringIO())):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(seen) == 1
    assert threading.excepthook == seen.append


def test_what_the_manifest_says_was_called(tmp_path):
    job = launch_into(tmp_path).job

    assert OnSpark(JOB).command(job) == ["horovod.spark.run", "train", "num_proc=2"]
    assert OnRay(JOB).command(job) == ["horovod.ray.RayExecutor", "train", "num_workers=2"]


class _Context:
    def __init__(self, *, master="local[2]", python=sys.executable):
        self.master, self.pythonExec, self.defaultParallelism = master, python, 2


def require(monkeypatch, size=2, **context):
    monkeypatch.setattr(on_spark, "active_context", lambda: _Context(**context))
    OnSpark(JOB).require(size)


def test_a_session_of_this_host_is_asked_for_what_ranks_need(monkeypatch, tmp_path):
    require(monkeypatch)
    with pytest.raises(EnvironmentNotReadyError, match=r"local\[2\] runs 2 tasks") as raised:
        require(monkeypatch, 3)
    assert "local[3]" in raised.value.hint
    with pytest.raises(EnvironmentNotReadyError, match="has no hvdprof") as raised:
        require(monkeypatch, python=str(tmp_path / "python"))
    assert "PYSPARK_PYTHON" in raised.value.hint


def test_executors_of_a_cluster_are_not_judged_from_here(monkeypatch, tmp_path):
    require(monkeypatch, 64, master="spark://node:7077", python=str(tmp_path / "python"))


def test_other_threads_are_sent_to_another_launcher(monkeypatch):
    seen = []

    def on_another_thread():
        try:
            require(monkeypatch)
        except EnvironmentNotReadyError as error:
            seen.append(error.message)

    thread = threading.Thread(target=on_another_thread)
    thread.start()
    thread.join()
    assert seen == ["horovod.spark.run can only be called on the main thread."]


@pytest.mark.parametrize(("launcher", "module"), [(OnSpark(JOB), "pyspark"), (OnRay(JOB), "ray")])
def test_a_missing_package_is_named_with_its_extra(monkeypatch, launcher, module):
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingExtraError) as raised:
        launcher.require(2)
    assert f"hvdprof[{module.removeprefix('py')}]" in raised.value.hint
