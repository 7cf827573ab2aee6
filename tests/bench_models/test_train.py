"""Real ranks that run plans."""

import json
import statistics

import pytest

from tests.builders.recorded import blocked_ns, of_kind, phase_ns, recorded, steps_of
from tests.builders.training_job import FAULTY_TRAIN, horovodrun, mpirun, plan, run_job, segment

pytestmark = [pytest.mark.horovod, pytest.mark.warm]

TENSORS = {
    f"allreduce.{layer}.{part}"
    for layer in ("conv1", "conv2", "fc1", "fc2")
    for part in ("weight", "bias")
}


@pytest.fixture(scope="module")
def mpi_job(tmp_path_factory):
    """One launch of two ranks with a segment of each kind that MPI can run."""
    ended = run_job(
        mpirun(2),
        plan(
            2,
            segment("average", timeline=True),
            segment("fp16", compression="fp16"),
            segment("adasum", reduction="adasum"),
            segment("limited", num_steps=30, max_seconds=0.01),
            segment("resnet", model="resnet18", image_size=32, batch_size=2, num_steps=2),
            mode="trace",
            pin_cores=True,
        ),
        tmp_path_factory.mktemp("mpi"),
        HOROVOD_TIMELINE="DYNAMIC",
        timeout_s=180,
    )
    assert ended.exit_code == 0, ended.stderr
    return ended


def both_ranks(ended) -> list[list[dict]]:
    return [recorded(ended.paths.recorder_file(rank)) for rank in (0, 1)]


def test_every_rank_records_every_segment_to_its_end(mpi_job):
    for rank, lines in enumerate(both_ranks(mpi_job)):
        assert (lines[0]["rank"], lines[0]["size"], lines[0]["local_rank"]) == (rank, 2, rank)
        names = ["average", "fp16", "adasum", "limited", "resnet"]
        assert [line["id"] for line in of_kind(lines, "segment_end")] == names
        assert lines[-1]["kind"] == "end"
        assert of_kind(lines, "problem") == []
        warmups = [step["warmup"] for step in steps_of(lines, "average")]
        assert warmups == [True, False, False, False, False]


def test_header_says_versions_threads_and_own_cores(mpi_job):
    headers = [lines[0] for lines in both_ranks(mpi_job)]
    for header in headers:
        assert header["versions"]["horovod"] == "0.28.1"
        assert header["versions"]["torch"]
        assert header["num_threads"] == 1
        assert header["schema_version"] == 1
    if headers[0]["host"]["num_cores"] >= 2:
        assert len(headers[0]["affinity"]) == len(headers[1]["affinity"]) == 1
        assert headers[0]["affinity"] != headers[1]["affinity"]


def test_ranks_of_one_host_share_the_clock(mpi_job):
    for lines in both_ranks(mpi_job):
        clocks = of_kind(lines, "clock")
        assert [(one["when"], one["method"], one["offset_ns"]) for one in clocks] == [
            ("start", "same-clock", 0),
            ("end", "same-clock", 0),
        ]


def test_every_gradient_is_ready_within_backward(mpi_job):
    lines = both_ranks(mpi_job)[1]
    declared = of_kind(lines, "segment")[0]["tensors"]
    assert {tensor["name"] for tensor in declared} == TENSORS
    for step in steps_of(lines, "average"):
        ((_, begin, length),) = [piece for piece in step["phases"] if piece[0] == "backward"]
        assert all(begin <= ready <= begin + length for ready in step["ready"])


def test_steps_are_covered_by_their_phases(mpi_job):
    for step in steps_of(both_ranks(mpi_job)[0], "average"):
        names = [name for name, *_ in step["phases"]]
        # A busy machine may need 20 µs from backward to the update, which is a phase then.
        update = ["before_update", "optimizer"] if "before_update" in names else ["optimizer"]
        assert names == ["data", "forward", "backward", *update]
        covered = sum(length for _, _, length in step["phases"])
        assert covered <= step["dur_ns"] < covered + 20_000_000


@pytest.mark.parametrize("name", ["average", "fp16", "adasum"])
def test_blocked_lies_in_the_optimizer_phase_once_a_step(mpi_job, name):
    for lines in both_ranks(mpi_job):
        for step in steps_of(lines, name):
            assert len(step["blocked"]) == 1
            assert 0 < blocked_ns(step) <= phase_ns(step, "optimizer")


def test_adasum_blocks_for_its_whole_final_step(mpi_job):
    for step in steps_of(both_ranks(mpi_job)[0], "adasum"):
        assert blocked_ns(step) == phase_ns(step, "optimizer")


def test_fp16_halves_what_is_sent(mpi_job):
    sent = {
        line["id"]: (
            sum(tensor["size_bytes"] for tensor in line["tensors"]),
            sum(tensor["sent_bytes"] for tensor in line["tensors"]),
        )
        for line in of_kind(both_ranks(mpi_job)[0], "segment")
    }
    assert sent["average"] == (4 * 21_840, 4 * 21_840)
    assert sent["fp16"] == (4 * 21_840, 2 * 21_840)
    assert sent["resnet"] == (4 * 11_689_512, 4 * 11_689_512)


def test_all_ranks_agree_on_the_steps_of_a_time_limit(mpi_job):
    for lines in both_ranks(mpi_job):
        steps = steps_of(lines, "limited")
        assert len([step for step in steps if not step["warmup"]]) == 10


def test_timeline_is_complete_and_covers_the_measured_steps(mpi_job):
    events = json.loads(mpi_job.paths.timeline("average").read_text())
    names = {
        event["pid"]: event["args"]["name"]
        for event in events
        if event["ph"] == "M" and event["name"] == "process_name" and "name" in event["args"]
    }
    started = [
        names[one["pid"]] for one in events if one["ph"] == "B" and one["name"] == "ALLREDUCE"
    ]
    assert set(started) == TENSORS
    assert all(started.count(name) == 4 for name in TENSORS)
    lines = both_ranks(mpi_job)[0]
    start, stop = of_kind(lines, "timeline")
    assert (start["action"], stop["action"]) == ("start", "stop")
    assert start["file"] == stop["file"] == "timeline/average.json"
    measured = [step for step in steps_of(lines, "average") if not step["warmup"]]
    assert start["monotonic_ns"] <= measured[0]["start_ns"]
    assert measured[-1]["start_ns"] + measured[-1]["dur_ns"] <= stop["monotonic_ns"]
    assert not mpi_job.paths.timeline("fp16").exists()


def test_rank_0_prints_one_line_a_segment(mpi_job):
    lines = [line for line in mpi_job.stdout.splitlines() if "per step" in line]
    assert len(lines) == 5
    assert lines[0].startswith("average: mnist, np 2, 4 steps, ")


def test_gloo_and_the_clock_exchange_over_tcp(tmp_path):
    ended = run_job(
        horovodrun(2), plan(2, segment("average")), tmp_path, HVDPROF_CLOCK_EXCHANGE="always"
    )
    assert ended.exit_code == 0, ended.stderr
    first, second = both_ranks(ended)
    assert [one["method"] for one in of_kind(first, "clock")] == ["same-clock"] * 2
    clocks = of_kind(second, "clock")
    assert [(one["when"], one["method"]) for one in clocks] == [("start", "tcp"), ("end", "tcp")]
    for one in clocks:
        assert abs(one["offset_ns"]) <= one["error_ns"] < 50_000_000
        assert one["num_exchanges"] > 1
    assert len(steps_of(second, "average")) == 5


def test_loss_on_digits_falls_with_horovod_and_without(tmp_path):
    values = {"batch_size": 32, "num_steps": 250}
    ended = run_job(
        mpirun(1),
        plan(
            1,
            segment("torch", engine="torch", **values),
            segment("horovod", **values),
            data="digits",
        ),
        tmp_path,
    )
    assert ended.exit_code == 0, ended.stderr
    lines = recorded(ended.paths.recorder_file(0))
    losses = {
        name: [step["loss"] for step in steps_of(lines, name)] for name in ("torch", "horovod")
    }
    # The same seed gives the same training: Horovod changes nothing at size 1.
    assert losses["torch"] == pytest.approx(losses["horovod"], rel=1e-4)
    assert statistics.fmean(losses["torch"][-10:]) < 0.8 * statistics.fmean(losses["torch"][:10])
    tensors = {line["id"]: line["tensors"] for line in of_kind(lines, "segment")}
    assert tensors["torch"][0]["name"] == "conv1.weight"
    assert all(tensor["sent_bytes"] == 0 for tensor in tensors["torch"] + tensors["horovod"])
    assert all(step["blocked"] == [] for step in steps_of(lines, "torch"))


def fault(kind: str, step: int, **more: str) -> list[str]:
    options = {"fault": kind, "fault-rank": "1", "fault-step": str(step), "fault-segment": "one"}
    given = options | {name.replace("_", "-"): value for name, value in more.items()}
    return [word for name, value in given.items() for word in (f"--{name}", value)]


@pytest.mark.timing
def test_rank_is_blocked_as_long_as_the_other_one_is_late(tmp_path):
    delay_s = 0.15
    ended = run_job(
        mpirun(2),
        plan(2, segment("one", num_steps=8)),
        tmp_path,
        *fault("delay", 1, fault_delay_s=str(delay_s)),
        program=FAULTY_TRAIN,
    )
    assert ended.exit_code == 0, ended.stderr
    on_time, late = (steps_of(lines, "one")[2:] for lines in both_ranks(ended))
    assert statistics.median(map(blocked_ns, on_time)) == pytest.approx(delay_s * 1e9, rel=0.25)
    assert statistics.median(map(blocked_ns, late)) < 0.3 * delay_s * 1e9


def steps_of_killed_rank(folder, delay_s: float) -> list[int]:
    """Numbers of the recorded steps of a rank that was killed in step 5."""
    ended = run_job(
        mpirun(2),
        plan(2, segment("one", num_steps=50)),
        folder,
        *fault("kill", 5, fault_delay_s=str(delay_s)),
        program=FAULTY_TRAIN,
    )
    assert ended.exit_code != 0
    lines = recorded(ended.paths.recorder_file(1))
    assert lines[-1]["kind"] == "step"
    return [step["step"] for step in steps_of(lines, "one")]


def test_killed_rank_loses_the_step_it_was_in(tmp_path):
    assert steps_of_killed_rank(tmp_path, delay_s=0.11) == [0, 1, 2, 3, 4]


def test_killed_rank_may_lose_short_steps_but_none_within(tmp_path):
    numbers = steps_of_killed_rank(tmp_path, delay_s=0.0)
    assert numbers == list(range(len(numbers)))
    assert 1 <= len(numbers) <= 5


def test_exception_of_a_rank_is_a_traceback_and_ends_the_job(tmp_path):
    ended = run_job(
        horovodrun(2),
        plan(2, segment("one", num_steps=50)),
        tmp_path,
        *fault("raise", 3),
        program=FAULTY_TRAIN,
    )
    assert ended.exit_code != 0
    assert "InjectedError: injected at step 3" in ended.stderr
    assert len(steps_of(recorded(ended.paths.recorder_file(1)), "one")) == 3


def test_ranks_that_did_not_find_each_other_end_with_one_message(tmp_path):
    ended = run_job(mpirun(1), plan(2, segment("one")), tmp_path)
    assert ended.exit_code == 3
    assert "The plan is for 2 ranks, but the launcher started 1." in ended.stderr
    assert not ended.paths.recorder_folder.exists()


def test_plain_torch_in_a_plan_of_several_ranks_is_refused(tmp_path):
    ended = run_job(mpirun(2), plan(2, segment("one", engine="torch")), tmp_path)
    assert ended.exit_code != 0
    assert "Plain torch segments need a plan of size 1" in ended.stderr


@pytest.mark.root
def test_full_disk_under_the_recorder_does_not_stop_the_training(tmp_path, small_disk):
    ended = run_job(
        mpirun(2),
        plan(2, segment("one", num_steps=300, batch_size=2), segment("two")),
        tmp_path,
        HVDPROF_RECORDER_DIR=str(small_disk / "recorder"),
    )
    assert ended.exit_code == 0, ended.stderr
    assert "two: mnist, np 2, 4 steps" in ended.stdout
    assert "No space left on device" in ended.stderr or "disk full" in ended.stderr
    assert 1 <= ended.stderr.count("hvdprof recorder:") <= 4
    for path in sorted((small_disk / "recorder").glob("rank-*.jsonl")):
        assert recorded(path)[0]["kind"] == "header"
