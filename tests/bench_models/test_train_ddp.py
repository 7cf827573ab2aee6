"""Real ranks that train under DistributedDataParallel, beside the same training under Horovod."""

from statistics import median

import pytest

from tests.builders.recorded import blocked_ns, of_kind, phase_ns, recorded, steps_of
from tests.builders.training_job import mpirun, plan, run_job, segment, torchrun

pytestmark = [pytest.mark.horovod, pytest.mark.warm]

SLEEP_NS = 60_000_000


def of_both_ranks(ended) -> list[list[dict]]:
    assert ended.exit_code == 0, ended.stderr
    return [recorded(ended.paths.recorder_file(rank)) for rank in (0, 1)]


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """Two ranks of DDP whose buckets are recorded, their clocks compared over TCP."""
    return run_job(
        torchrun(2),
        plan(
            2,
            segment("plain", engine="ddp"),
            segment("fp16", engine="ddp", compression="fp16"),
            segment("cut", engine="ddp", num_steps=30, max_seconds=0.01),
            mode="trace",
            bucket_cap_mb=0.01,
        ),
        tmp_path_factory.mktemp("ddp"),
        HVDPROF_CLOCK_EXCHANGE="always",
    )


def test_every_rank_records_every_segment_to_its_end(observed):
    for rank, lines in enumerate(of_both_ranks(observed)):
        assert (lines[0]["rank"], lines[0]["size"], lines[0]["local_rank"]) == (rank, 2, rank)
        assert [line["id"] for line in of_kind(lines, "segment_end")] == ["plain", "fp16", "cut"]
        assert of_kind(lines, "problem") == []
        assert lines[-1]["kind"] == "end"
    lengths = {len(steps_of(lines, "cut")) for lines in of_both_ranks(observed)}
    assert lengths == {11}


def test_clocks_are_compared_over_the_store(observed):
    _, other = of_both_ranks(observed)
    assert [(one["when"], one["method"]) for one in of_kind(other, "clock")] == [
        ("start", "tcp"),
        ("end", "tcp"),
    ]
    assert all(abs(one["offset_ns"]) <= one["error_ns"] for one in of_kind(other, "clock"))


def test_the_wait_lies_behind_the_last_gradient(observed):
    for lines in of_both_ranks(observed):
        for step in steps_of(lines, "plain"):
            assert len(step["blocked"]) == 1
            assert -1 not in step["ready"]
            assert max(step["ready"]) <= step["blocked"][0][0]
            assert 0 < blocked_ns(step) == phase_ns(step, "collective")
            assert phase_ns(step, "optimizer") > 0


def test_buckets_hold_every_gradient_once_and_are_reduced_before_the_wait_ends(observed):
    for lines in of_both_ranks(observed):
        tensors = of_kind(lines, "segment")[0]["tensors"]
        for step in steps_of(lines, "plain"):
            members = [one for _, _, bucket in step["buckets"] for one in bucket]
            assert sorted(members) == list(range(len(tensors)))
            # 0.01 MiB: smaller than the largest layer, larger than a bias. DDP cuts its buckets
            # anew after the first step.
            assert step["step"] == 0 or 2 <= len(step["buckets"]) < len(tensors)
            begin, length = step["blocked"][0]
            assert max(offset + dur for offset, dur, _ in step["buckets"]) <= begin + length
            for offset, _, bucket in step["buckets"]:
                assert offset >= max(step["ready"][one] for one in bucket)


def test_fp16_halves_what_is_sent(observed):
    lines, _ = of_both_ranks(observed)
    plain, fp16, _ = of_kind(lines, "segment")
    for before, after in zip(plain["tensors"], fp16["tensors"], strict=True):
        assert before["sent_bytes"] == before["size_bytes"] == 2 * after["sent_bytes"]


def test_same_seed_gives_the_same_training_as_horovod(tmp_path):
    values = {"model": "resnet18", "image_size": 32, "batch_size": 2, "num_steps": 3}
    (tmp_path / "ddp").mkdir()
    (tmp_path / "horovod").mkdir()
    ddp = run_job(torchrun(2), plan(2, segment("one", engine="ddp", **values)), tmp_path / "ddp")
    horovod = run_job(mpirun(2), plan(2, segment("one", **values)), tmp_path / "horovod")
    for own, other in zip(of_both_ranks(ddp), of_both_ranks(horovod), strict=True):
        losses = [[step["loss"] for step in steps_of(lines, "one")] for lines in (own, other)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
        # In throughput passes nothing hooks into the buckets.
        assert not any("buckets" in step for step in steps_of(own, "one"))


def test_a_straggler_makes_the_other_rank_wait(tmp_path):
    phases = ("forward", "backward")
    faults = (f"sleep:phase={phase},rank=1,amount=60ms" for phase in phases)
    ended = run_job(
        torchrun(2),
        plan(2, segment("one", engine="ddp", num_steps=12)),
        tmp_path,
        HVDPROF_FAULTS=";".join(faults),
    )
    first, late = (steps_of(lines, "one")[-8:] for lines in of_both_ranks(ended))
    # For both: it is more than one of them takes. In a step in which other processes have its core,
    # the rank that waits is late itself.
    waits = median(map(blocked_ns, first))
    assert waits > 0.8 * len(phases) * SLEEP_NS
    assert median(map(blocked_ns, late)) < waits
    assert all(phase_ns(own, phase) >= SLEEP_NS for own in late for phase in phases)


def test_adasum_is_refused(tmp_path):
    ended = run_job(
        torchrun(1), plan(1, segment("one", engine="ddp", reduction="adasum")), tmp_path
    )
    assert ended.exit_code != 0
    assert "The plan asks for 'adasum'; known are average." in ended.stderr
