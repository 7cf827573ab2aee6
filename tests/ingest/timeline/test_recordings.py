"""Every available recording against how it was made."""

import json
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import pytest

from hvdprof.ingest.timeline.horovod_timeline import TimelineFile, read_timeline_file
from hvdprof.ingest.timeline.meaning.semantics import sessions_of
from tests.builders.places import CORPUS, RECORDINGS, needs_corpus, recording
from tests.builders.timeline_rows import rows_of

read = cache(read_timeline_file)


@dataclass(frozen=True)
class Known:
    """``ticks`` counts those of rank 0; ``steps`` is -1 where none can be inferred."""

    uses: dict[str, int]
    steps: int
    ticks: int
    backend: str = "GLOO"
    framework: str = "PyTorch"
    size: int = 2
    rank_ticks: str = "first use"
    num_open: int = 0
    phantoms: int = 0


def training(steps: int, **known: object) -> Known:
    """The model of the recordings: 6 broadcasts, then 6 allreduces a step."""
    fields: dict[str, object] = {
        "uses": {"BROADCAST": 6, "ALLREDUCE": 6 * steps},
        "steps": steps,
        "ticks": 12,
    }
    return Known(**(fields | known))


BASICS = {
    "01_gloo_cache_on": training(10),
    "02_gloo_cache_off": training(10, ticks=66, rank_ticks="every use"),
    "03_mpi_cache_on": training(10, backend="MPI"),
    "04_gloo_straggler_rank1_cache_off": training(12, ticks=78, rank_ticks="every use"),
    "05_gloo_straggler_rank1_cache_on": training(12),
    "06_mpi_adasum": Known({"BROADCAST": 6, "ADASUM": 36}, 6, 42, "MPI", rank_ticks="none"),
    "07_mpi_fp16": training(8, backend="MPI"),
    "08_mpi_groups2": training(8, uses={"BROADCAST": 8, "ALLREDUCE": 48}, ticks=14, backend="MPI"),
    "09_gloo_mark_cycles": training(6),
    "10_gloo_kill9": training(32, num_open=1),
    "11_dynamic_a": Known({"ALLREDUCE": 4}, 4, 1),
    "12_dynamic_b_started_midop": Known({"ALLREDUCE": 4}, -1, 1),
    "13_gloo_all_ops_join_barrier_error": Known(
        {
            "ALLREDUCE": 18,
            "ALLGATHER": 6,
            "BROADCAST": 6,
            "ALLTOALL": 2,
            "REDUCESCATTER": 6,
            "BARRIER": 2,
            "ERROR": 1,
        },
        steps=-1,
        ticks=30,
        rank_ticks="some uses",
        phantoms=12,
    ),
    "14_gloo_unescaped_names": Known({"ALLREDUCE": 7}, -1, 7, rank_ticks="none"),
    "15_mpi_stall_cached": Known({"ALLREDUCE": 40}, 5, 16, "MPI", rank_ticks="some uses"),
    "16_mpi_stall_shutdown": Known(
        {"ALLREDUCE": 16}, -1, 16, "MPI", rank_ticks="every use", num_open=8
    ),
    "17_gloo_process_sets_np3": Known({"ALLREDUCE": 4}, -1, 2, size=3),
    "18_gloo_tail_lost_clean_exit": training(7, ticks=48, rank_ticks="every use", num_open=6),
    "19_mpi_autotune": training(70, backend="MPI", ticks=228, rank_ticks="some uses"),
    "20_derived_v019_layout": training(10, backend="MPI"),
}

FAULTS = {
    "baseline": training(26),
    "baseline_mpi": training(30, backend="MPI"),
    "slow_rank1_60ms": training(30),
    "no_fusion": training(30),
    "no_cache_markcycles": training(21, ticks=132, rank_ticks="every use"),
    "fp16": training(30),
    "hosts2_nolimit": training(30),
    "hosts3_nolimit": training(30, size=3, num_open=12),
    "never_join_rank1": training(30, ticks=18, rank_ticks="some uses"),
    "never_join_rank1_shutdown": training(30, ticks=18, rank_ticks="some uses"),
    "kill_rank0": training(15, num_open=7),
    "kill_rank1": training(15),
    "kill_rank1_mpi": training(15, backend="MPI", num_open=1),
    "raise_rank1": training(15),
    "disk_full": training(18, num_open=11),
    "elastic": Known({"BROADCAST": 28, "ALLREDUCE": 120}, 60, 30),
    "elastic_scale_up": Known({"BROADCAST": 44, "ALLREDUCE": 200}, 100, 46),
    "elastic_kill_rank1": Known({"BROADCAST": 20, "ALLREDUCE": 80}, 40, 22, size=1),
    "elastic_grow_midrun": Known({"BROADCAST": 18, "ALLREDUCE": 70}, 35, 20, size=1),
    "keras_baseline": Known({"BROADCAST": 5, "ALLREDUCE": 66}, 16, 10, framework="TensorFlow"),
}


def open_rows(file: TimelineFile) -> int:
    return int((file.rows.dur_us < 0).sum())


@pytest.mark.heavy
@pytest.mark.parametrize("name", [*BASICS, *FAULTS])
def test_own_recordings_say_what_was_done(name: str) -> None:
    known, file = (BASICS | FAULTS)[name], read(recording(name))
    assert file.facts.uses_by_collective == known.uses
    assert len(file.steps) == max(known.steps, 0)
    assert bool(file.steps.refusal) == (known.steps < 0)
    assert file.facts.backends == (known.backend,)
    assert file.facts.frameworks == (known.framework,)
    assert file.facts.size == known.size
    assert file.facts.rank_evidence.kind == known.rank_ticks
    assert sum(row.activity == "0" for row in rows_of(file) if row.phase == "mark") == known.ticks
    assert open_rows(file) == known.num_open
    assert file.facts.num_phantoms == known.phantoms
    assert file.facts.unknown_activities == {}
    assert file.facts.autotuned == (name == "19_mpi_autotune")
    assert not file.facts.cache_misses


@pytest.mark.heavy
@pytest.mark.parametrize("name", [*BASICS, *FAULTS])
def test_what_was_packed_into_a_fusion_buffer_was_fused_and_nothing_else(name: str) -> None:
    file = read(recording(name))
    rows = rows_of(file)
    # Gloo packs a reducescatter that is not fused too (gloo_operations.cc, GlooReducescatter).
    packed = {
        row.fusion_id
        for row in rows
        if row.activity == "MEMCPY_IN_FUSION_BUFFER" and row.collective != "REDUCESCATTER"
    }
    fused = {number for number, members in enumerate(file.executions.num_tensors) if members > 1}
    reducescatters = {row.fusion_id for row in rows if row.activity == "REDUCESCATTER"}
    assert packed == fused - reducescatters


def test_the_rank_that_slept_is_named_and_ties_are_not() -> None:
    name = "04_gloo_straggler_rank1_cache_off"
    uses = read(recording(name)).uses
    truth = [
        json.loads((RECORDINGS / f"{name}.rank{rank}.truth.json").read_text()) for rank in (0, 1)
    ]
    reduced = [row for row in range(len(uses)) if str(uses.tensor[row]).startswith("allreduce.")]
    named: dict[int, set[object]] = {}
    for row in reduced:
        step, parameter = int(uses.occurrence[row]), str(uses.tensor[row]).partition(".")[2]
        ready = [one["steps"][step]["ready"][parameter] for one in truth]
        last = uses.last_rank[row]
        named.setdefault(step, set()).add(None if last is pd.NA else last)
        if last is not pd.NA:
            assert last == int(np.argmax(ready))
    assert named[0] == named[1] == {None}
    assert [named[step] for step in (2, 5, 8, 11)] == [{1}] * 4


def test_under_the_cache_the_rank_that_slept_cannot_be_named_but_its_wait_is_seen() -> None:
    file = read(recording("05_gloo_straggler_rank1_cache_on"))
    assert file.facts.rank_evidence.sentence.endswith("so it cannot name a straggler.")
    uses = file.uses
    reduced = np.asarray(uses.collective) == "ALLREDUCE"
    waits = pd.Series(uses.negotiation_us[reduced]).groupby(uses.occurrence[reduced]).max()
    assert [step for step, wait in waits.items() if wait > 100_000] == [2, 5, 8, 11]
    assert pd.isna(uses.last_rank[uses.occurrence > 0]).all()


def test_adasum_counts_what_it_nests_once() -> None:
    executions = read(recording("06_mpi_adasum")).executions
    adasum = np.asarray(executions.collective) == "ADASUM"
    parts = executions.part_us[adasum].sum(axis=1)
    assert (parts <= executions.dur_us[adasum]).all()


def test_two_files_of_one_process_share_an_axis() -> None:
    files = [read(recording(name)) for name in ("11_dynamic_a", "12_dynamic_b_started_midop")]
    other = read(recording("06_mpi_adasum"))
    assert sessions_of([file.epoch_us for file in (*files, other)]) == ((0, 1), (2,))
    assert files[0].rows.start_us.max() < files[1].rows.start_us.min()


def test_warm_up_is_broadcasts_first_uses_and_what_initialises() -> None:
    file = read(recording("06_mpi_adasum"))
    warm = file.uses.warmup
    assert warm.tolist() == [
        occurrence == 0 or str(tensor).startswith("broadcast")
        for occurrence, tensor in zip(file.uses.occurrence, file.uses.tensor, strict=True)
    ]
    initialising = file.executions.part_us[:, 0] > 0
    assert initialising.any()
    assert file.executions.warmup[initialising].all()


def test_a_file_of_an_old_layout_means_the_same_as_its_original() -> None:
    old = read(recording("20_derived_v019_layout"))
    new = read(recording("03_mpi_cache_on"))
    assert old.epoch_us is None
    assert old.facts.writer == "Horovod 0.16 to 0.20.0"
    assert new.facts.writer == "Horovod 0.20.1 or later"
    assert np.diff(old.rows.start_us).tolist() == np.diff(new.rows.start_us).tolist()
    assert old.rows.fusion_id.tolist() == new.rows.fusion_id.tolist()
    assert old.uses.size_bytes.tolist() == new.uses.size_bytes.tolist()


SWEEP = {1: 501, 2: 502, 8: 502, 32: 502}
"""Files of a sweep over workers: reductions of its one tensor."""

FAKE_GRADIENTS = (2, 4, 16, 32)


def corpus_file(name: str) -> TimelineFile:
    return read(CORPUS / "horovod_timelines" / f"{name}.json")


@needs_corpus
@pytest.mark.parametrize("workers", SWEEP)
def test_a_sweep_of_one_tensor_over_workers(workers: int) -> None:
    file = corpus_file(f"tflogs_comm831_{workers}workers")
    facts = file.facts
    assert facts.uses_by_collective == {"ALLREDUCE": SWEEP[workers]}
    assert facts.num_tensors == 1
    assert facts.size == workers
    assert facts.frameworks == ("TensorFlow",)
    assert facts.rank_evidence.kind == "first use"
    assert set(file.uses.size_bytes) == {856058 * 4}
    assert file.uses.num_ticks.sum() == workers


@needs_corpus
@pytest.mark.parametrize("workers", FAKE_GRADIENTS)
def test_fake_gradients_over_ethernet(workers: int) -> None:
    facts = corpus_file(f"tflogs_fake120MB_{workers}workers").facts
    assert facts.uses_by_collective == {"BROADCAST": 5, "ALLREDUCE": 54}
    assert facts.num_tensors == 5 + 6
    assert facts.size == workers
    assert facts.backends == ("MPI",)
    assert facts.rank_evidence.kind == "every use"


@pytest.mark.heavy
@needs_corpus
@pytest.mark.parametrize(
    ("name", "size"), [("tflogs_mpi_12rank", 12), ("tflogs_mpi_4rank_cyclestart_noend", 4)]
)
def test_tf_cnn_benchmarks_on_cpus(name: str, size: int) -> None:
    file = corpus_file(name)
    facts = file.facts
    assert facts.uses_by_collective == {"BROADCAST": 13, "ALLREDUCE": 660}
    reduced = np.asarray(file.uses.collective) == "ALLREDUCE"
    # 13 broadcasts and 6 gradients: 19 tensors.
    assert facts.num_tensors == 19
    assert len(set(file.uses.tensor[reduced])) == 6
    assert facts.size == size
    assert facts.num_fused_executions == 107
    assert len(file.steps) == 110
    assert facts.writer == "Horovod 0.16 to 0.20.0"
    cycles = sum(row.activity == "CYCLE_START" for row in rows_of(file))
    assert cycles == (13_999 if size == 4 else 0)


@pytest.mark.heavy
@needs_corpus
def test_a_rank_that_starts_late_is_the_last_of_the_first_broadcast() -> None:
    uses = corpus_file("tflogs_mpi_12rank").uses
    assert uses.last_rank[0] == 0
    assert 2_100_000 < uses.last_after_us[0] < 2_300_000


@needs_corpus
def test_a_single_worker() -> None:
    facts = corpus_file("tflogs_single_worker_fusion").facts
    assert facts.uses_by_collective == {"BROADCAST": 13, "ALLREDUCE": 120}
    assert facts.size == 1
    # The index says 12 fused, but the file holds none: a fused execution copies its tensors into
    # the fusion buffer first, and no activity of it stands there.
    assert (
        "FUSION_BUFFER"
        not in (CORPUS / "horovod_timelines" / "tflogs_single_worker_fusion.json").read_text()
    )
    assert facts.num_fused_executions == 0


@pytest.mark.heavy
@needs_corpus
def test_broadcasts_of_a_gpu_build() -> None:
    file = corpus_file("cipherdoc_torch_4gpu_broadcast_only")
    facts = file.facts
    assert set(facts.uses_by_collective) == {"BROADCAST"}
    assert facts.size == 1
    assert facts.frameworks == ("PyTorch",)
    assert {"WAIT_FOR_DATA", "WAIT_FOR_OTHER_TENSOR_DATA"} <= {
        row.activity for row in rows_of(file)
    }
    assert set(file.uses.dtype) - {""} <= {"int64", "float32"}
    assert file.steps.refusal
