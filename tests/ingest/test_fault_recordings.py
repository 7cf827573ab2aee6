"""Recordings of faults with known truth: what the files show, and what they must not pretend to."""

from functools import cache

import pytest

from hvdprof import api
from hvdprof.model.notes import texts
from hvdprof.model.standalone_files import FilesAnalysis
from tests.builders.places import RECORDINGS, recording


@cache
def found(name: str) -> FilesAnalysis:
    return api.analyze_files(api.load_run(recording(name)))


def steady(name):
    table = found(name).derived["collectives"]
    return table[(table["collective"] == "ALLREDUCE") & ~table["warmup"]]


def file_row(name):
    return found(name).run.table("timelines").iloc[0]


@pytest.mark.heavy
def test_a_slow_rank_is_seen_as_waiting_but_cannot_be_named():
    slow, healthy = (
        found(name).run.table("tensor_uses") for name in ("slow_rank1_60ms", "baseline")
    )

    waits = [uses.loc[~uses["warmup"], "negotiation_ns"].median() for uses in (slow, healthy)]
    assert waits[0] > 50e6 > waits[1]
    assert "No straggler can be named" in found("slow_rank1_60ms").files[0].caveat


@pytest.mark.slow
def test_without_fusion_every_tensor_travels_alone_and_nothing_is_copied():
    table = steady("no_fusion")

    assert set(table["num_tensors"]) == {1}
    assert (table["copy_ns"] == 0).all()


@pytest.mark.heavy
def test_fp16_sends_half_the_bytes():
    by_step = [steady(name).groupby("step")["size_bytes"].sum() for name in ("fp16", "baseline")]

    halves, whole = (int(bytes_.mode().iloc[0]) for bytes_ in by_step)
    assert whole == 2 * halves
    # 784-512-512-10 with biases, in floats of four bytes.
    assert whole == 4 * (784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10)


@pytest.mark.heavy
def test_with_the_cache_off_every_use_names_its_ranks():
    assert file_row("no_cache_markcycles")["rank_ticks"] == "every use"
    assert file_row("baseline")["rank_ticks"] == "first use"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "steps"), [("baseline", 26), ("no_cache_markcycles", 21), ("no_fusion", 30)]
)
def test_a_tail_that_is_missing_is_not_made_up(name, steps):
    assert len(found(name).run.table("inferred_steps")) == steps


@pytest.mark.heavy
def test_a_killed_writer_leaves_events_that_never_end():
    assert "7 events never end" in " ".join(texts(found("kill_rank0").run.notes))


@pytest.mark.heavy
def test_a_file_that_a_full_disk_cut_keeps_every_complete_record():
    uses = found("disk_full").run.table("tensor_uses")

    assert len(uses) > 50
    assert found("disk_full").run.notes


@pytest.mark.heavy
def test_what_came_before_an_elastic_reset_is_lost_and_the_rest_is_read():
    uses = found("elastic_kill_rank1").run.table("tensor_uses")

    assert (uses["collective"] == "ALLREDUCE").sum() == 80


@pytest.mark.heavy
def test_keras_names_are_recognised():
    assert "TensorFlow" in file_row("keras_baseline")["frameworks"]


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "backend"), [("baseline", "GLOO"), ("baseline_mpi", "MPI")])
def test_backends(name, backend):
    assert file_row(name)["backends"] == backend


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "ranks"), [("hosts2_nolimit", 2), ("hosts3_nolimit", 3)])
def test_ranks_of_several_hosts_are_counted(name, ranks):
    assert file_row(name)["np"] == ranks


@pytest.mark.slow
def test_no_recording_names_a_straggler():
    names = [path.name.removesuffix(".json.gz") for path in (RECORDINGS / "faults").iterdir()]
    assert len(names) == 20
    for name in names:
        assert "is late:" not in found(name).files[0].verdict
