import pytest

from hvdprof.ingest.timeline.horovod_timeline import parse_timeline
from hvdprof.ingest.timeline.meaning.file_facts import (
    SINCE_BOOT,
    SINCE_INIT,
    SINCE_RECORDING,
    RankEvidence,
    TimelineFacts,
)
from hvdprof.model.notes import texts
from tests.builders.timeline_writer import TimelineWriter


def facts_of(writer: TimelineWriter) -> TimelineFacts:
    return parse_timeline(writer.text()).facts


def executed(*activities: str, op: str = "ALLREDUCE") -> TimelineWriter:
    writer = TimelineWriter()
    writer.negotiate(["allreduce.a"], op=op)
    writer.execute(["allreduce.a"], op=op, activities=activities)
    return writer


@pytest.mark.parametrize(
    ("activities", "backends"),
    [
        (["MPI_ALLREDUCE"], ("MPI",)),
        (["GLOO_ALLREDUCE", "MPI_ALLTOALL"], ("GLOO",)),
        (["MPI_ALLTOALL"], ("MPI",)),
        (["NCCL_REDUCESCATTER", "MPI_ALLREDUCE", "NCCL_ALLGATHER"], ("MPI", "NCCL")),
        (["CCL_ALLREDUCE"], ("CCL",)),
        (["MLSL_ALLREDUCE"], ("MLSL",)),
        (["DDL_ALLREDUCE"], ("DDL",)),
        (["MEMCPY_IN_FUSION_BUFFER", "QUEUE"], ()),
    ],
)
def test_backends_are_read_from_their_activities(
    activities: list[str], backends: tuple[str, ...]
) -> None:
    facts = facts_of(executed(*activities))
    assert facts.backends == backends
    assert facts.unknown_activities == {}


@pytest.mark.parametrize(
    ("tensor", "frameworks"),
    [
        ("allreduce.layer1.0.conv1.weight", ("PyTorch",)),
        ("grouped_allreduce.3.bias_1of3", ("PyTorch",)),
        ("broadcast.noname.7", ("PyTorch",)),
        ("horovod_allreduce.0", ("MXNet",)),
        ("HorovodBroadcast_v0_affine0_biases_0", ("TensorFlow",)),
        ("DistributedGradientTape_Allreduce/cond/HorovodAllreduce_grads_0", ("TensorFlow",)),
        ("training/SGD/DistributedSGD_Allreduce/HorovodAllreduce_x_0", ("TensorFlow",)),
        ("something", ()),
    ],
)
def test_frameworks_are_read_from_the_names_of_tensors(
    tensor: str, frameworks: tuple[str, ...]
) -> None:
    writer = TimelineWriter()
    writer.negotiate([tensor])
    assert facts_of(writer).frameworks == frameworks


def test_unknown_activities_stay_and_are_named_once() -> None:
    writer = executed("UCC_ALLREDUCE", "UCC_ALLREDUCE")
    file = parse_timeline(writer.text())
    assert file.facts.unknown_activities == {"UCC_ALLREDUCE": 2}
    (note,) = texts(file.problems)
    assert note == "activities that no known version of Horovod writes: UCC_ALLREDUCE (2)"
    assert list(file.rows.activity).count("UCC_ALLREDUCE") == 2


def test_the_torus_algorithm_is_known_by_the_order_of_its_stages() -> None:
    stages = ("NCCL_ALLREDUCE", "QUEUE", "NCCL_REDUCESCATTER", "NCCL_ALLGATHER")
    assert facts_of(executed(*stages)).torus
    note = " ".join(texts(parse_timeline(executed(*stages).text()).problems))
    assert "not what they cost" in note
    assert not facts_of(executed("NCCL_REDUCESCATTER", "MPI_ALLREDUCE", "NCCL_ALLGATHER")).torus
    assert not facts_of(executed("NCCL_ALLREDUCE")).torus


@pytest.mark.parametrize(
    ("epoch_us", "first_us", "zero"),
    [
        (1_700_000_000_000_000, 3, SINCE_INIT),
        (None, 1_400_000_000_000, SINCE_BOOT),
        (None, 2_000_000, SINCE_RECORDING),
    ],
)
def test_what_time_zero_is(epoch_us: int | None, first_us: int, zero: str) -> None:
    writer = TimelineWriter(epoch_us=epoch_us)
    writer.now_us = first_us
    writer.negotiate(["allreduce.a"])
    facts = facts_of(writer)
    assert facts.time_zero == zero
    assert facts.writer.startswith("Horovod")


def test_the_number_of_ranks_is_that_of_the_highest_tick() -> None:
    writer = TimelineWriter()
    writer.negotiate(["allreduce.a"], ranks=(0, 2, 1))
    facts = facts_of(writer)
    assert (facts.size, facts.size_reason) == (3, "highest rank named: 2")
    writer.negotiate(["allreduce.b"], ranks=(0, 7))
    reason = facts_of(writer).size_reason
    assert reason == "highest rank named: 7, only 4 ranks named"
    nothing = facts_of(TimelineWriter())
    assert (nothing.size, nothing.size_reason) == (None, "no rank named")


def test_tensors_of_a_smaller_process_set_are_counted() -> None:
    writer = TimelineWriter()
    writer.negotiate(["allreduce.world"], ranks=(0, 1, 2))
    writer.execute(["allreduce.world"])
    writer.negotiate(["allreduce.pair"], ranks=(0, 1))
    writer.execute(["allreduce.pair"])
    assert facts_of(writer).fewer_ranks == 1


def test_repeated_fusion_buffers_show_autotuning() -> None:
    def trained(initialising: int) -> TimelineWriter:
        writer = TimelineWriter()
        for step in range(8):
            buffers = ("INIT_FUSION_BUFFER",) if step < initialising else ()
            writer.negotiate(["allreduce.a"])
            writer.execute(["allreduce.a"], activities=(*buffers, "MPI_ALLREDUCE"))
        return writer

    assert facts_of(trained(6)).autotuned
    assert not facts_of(trained(2)).autotuned


@pytest.mark.parametrize(
    ("rounds_with_ticks", "misses"), [((1, 2, 3, 4), True), ((3,), False), ((), False)]
)
def test_a_cache_too_small_is_distinguished_from_a_stall(
    rounds_with_ticks: tuple[int, ...], misses: bool
) -> None:
    writer = TimelineWriter()
    for step in range(6):
        for tensor in ("allreduce.a", "allreduce.b"):
            has_ticks = step == 0 or (step in rounds_with_ticks and tensor == "allreduce.b")
            writer.negotiate([tensor], ranks=(0, 1) if has_ticks else ())
        writer.execute(["allreduce.a", "allreduce.b"])
    file = parse_timeline(writer.text())
    assert file.facts.cache_misses == misses
    assert any("HOROVOD_CACHE_CAPACITY" in note for note in texts(file.problems)) == misses


def test_a_cache_that_is_off_does_not_miss() -> None:
    writer = TimelineWriter()
    for _ in range(6):
        writer.negotiate(["allreduce.a"], ranks=(0, 1))
        writer.execute(["allreduce.a"])
    assert not facts_of(writer).cache_misses


def test_a_refused_operation_is_an_error_and_is_noted() -> None:
    writer = TimelineWriter()
    writer.negotiate(["allreduce.a"])
    writer.begin("allreduce.a", "ERROR")
    writer.end("allreduce.a")
    file = parse_timeline(writer.text())
    assert file.facts.num_errors == 1
    assert texts(file.problems) == ("1 operation failed: ranks did not agree on the tensor",)


@pytest.mark.parametrize(
    ("later", "with_ranks", "kind"),
    [(0, 0, "none"), (5, 0, "first use"), (5, 2, "some uses"), (5, 5, "every use")],
)
def test_what_ticks_say_of_stragglers(later: int, with_ranks: int, kind: str) -> None:
    evidence = RankEvidence(later, with_ranks)
    assert evidence.kind == kind
    assert evidence.sentence.endswith(".")


def test_damage_is_reported_with_its_places() -> None:
    text = executed("MPI_ALLREDUCE").text()
    place = text.index('{"ph": "B", "name": "ALLREDUCE"')
    file = parse_timeline(text[:place] + "\0\0garbage " + text[place:])
    (note,) = (one for one in texts(file.problems) if "damaged" in one)
    assert note.startswith("damaged places left out: 1 (")
    assert f"at byte {place}" in note
    assert len(file.executions) == 1


def test_a_trace_of_another_tool_is_named() -> None:
    text = '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", '
    text += '"pid": 1, "tid": 1, "ts": 1, "dur": 2}]}'
    assert "not a timeline of Horovod" in parse_timeline(text).problems[0].text


def test_times_that_fall_back_are_said_with_their_cause() -> None:
    one = executed("MPI_ALLREDUCE")
    assert not [
        clause for clause in texts(parse_timeline(one.text()).problems) if "fall back" in clause
    ]
    one.now_us = 0
    one.negotiate(["a"])
    file = parse_timeline(one.text())
    assert file.facts.num_time_jumps == 0, "less than a millisecond"
    one.now_us = 5_000_000
    for _ in range(2):
        one.negotiate(["b"])
        one.now_us -= 2_000_000
    one.negotiate(["b"])
    file = parse_timeline(one.text())
    assert file.facts.num_time_jumps == 2
    (clause,) = (clause for clause in texts(file.problems) if "fall back" in clause)
    assert clause.startswith("its times fall back by up to 2,000 ms (places: 2): one recording")


def test_two_writers_in_one_file_are_said() -> None:
    writer = TimelineWriter()
    for number in range(20):
        writer.now_us += 7_000_000 if number % 2 else -6_000_000
        writer.negotiate(["a"])
    problems = texts(parse_timeline(writer.text()).problems)
    assert any("two processes wrote the file" in one for one in problems)
