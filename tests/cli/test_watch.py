"""`hvdprof watch` on runs that are over, on no folder, and until Ctrl-C."""

import json
import signal
import time

from hvdprof.rundir.failures.launcher_failures import Failure
from tests.builders.live_job import LiveJob
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.running_command import hvdprof, started, wait_for


def test_a_finished_run_ends_at_once(tmp_path):
    run = write_run(tmp_path / "run", [PassSpec(size=2)])
    ended = hvdprof("watch", str(run))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("The job has ended: ")
    assert ended.stderr == f"hvdprof: The run is done: hvdprof analyze {run}\n"


def test_a_failed_run_is_said_to_be_one_with_the_command_that_shows_why(tmp_path):
    segment = SegmentSpec(status="failed", failure=Failure(reason="rank 1 died"))
    run = write_run(tmp_path / "my run", [PassSpec(size=2, segments=[segment])], status="failed")
    ended = hvdprof("watch", str(run), "--format", "json")
    assert ended.stderr == f"hvdprof: The run is failed: hvdprof analyze '{run}'\n"


def test_no_folder_is_an_error_in_a_sentence(tmp_path):
    ended = hvdprof("watch", str(tmp_path / "none"))
    assert ended.returncode != 0
    assert "none" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_empty_folder_is_waited_for_in_a_sentence(tmp_path):
    with started("watch", str(tmp_path)) as command:
        wait_for((tmp_path / "watched").exists)
        time.sleep(2.5)
        command.send_signal(signal.SIGINT)
        stdout, stderr = command.communicate(timeout=60)
    assert stdout == ""
    assert stderr.splitlines()[0] == (
        f"hvdprof: Waiting for ranks to record in {tmp_path}; start the job with "
        "HVDPROF_RECORDER_DIR set to it, or `hvdprof run --watch`."
    )
    assert stderr.count("Waiting for ranks") == 1


def test_ctrl_c_ends_the_watch_and_loses_nothing(tmp_path):
    job = LiveJob(tmp_path / "rec", 2, lambda rank, at: 0.2 if rank == 1 and at >= 20 else 0.0)
    job.record(60)
    events = job.folder / "events.jsonl"
    with started("watch", str(job.folder), "--format", "json") as command:
        # Sent while the look lasts in which the event is written down: it is shown all the same.
        wait_for(events.exists)
        command.send_signal(signal.SIGINT)
        stdout, stderr = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "Traceback" not in stderr
    (event,) = map(json.loads, stdout.splitlines())
    assert (event["kind"], event["ranks"]) == ("straggler", [1])
    assert len(events.read_text().splitlines()) == 1
    assert not (job.folder / "watched").exists()
