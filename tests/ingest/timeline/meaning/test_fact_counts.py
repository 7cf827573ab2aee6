from hvdprof.ingest.timeline.horovod_timeline import parse_timeline
from hvdprof.ingest.timeline.meaning.fact_counts import PendingNegotiation
from tests.builders.places import RECORDINGS
from tests.builders.timeline_rounds import submit, write_rounds
from tests.builders.timeline_writer import TimelineWriter


def pending(writer):
    return parse_timeline(writer.text()).summary.pending


def test_tensors_that_some_ranks_did_not_submit_are_pending():
    writer = write_rounds(TimelineWriter(), [{}] * 3, num_ranks=4)
    start_us = writer.now_us + 1
    submit(writer, [2, 0], tensors=["allreduce.a"])
    (found,) = pending(writer)
    assert found == PendingNegotiation("allreduce.a", "ALLREDUCE", start_us, (0, 2), (1, 3))


def test_nothing_is_pending_in_a_whole_recording():
    assert not pending(write_rounds(TimelineWriter(), [{}] * 3, num_ranks=4))


def test_ranks_hidden_by_the_cache_are_neither_submitted_nor_missing():
    writer = submit(write_rounds(TimelineWriter(), [{}] * 3, num_ranks=4), [])
    assert {(one.submitted, one.missing) for one in pending(writer)} == {((), ())}


def test_ranks_of_a_process_set_are_not_those_of_the_job():
    writer = write_rounds(TimelineWriter(), [{}] * 3, num_ranks=4)
    write_rounds(writer, [{}] * 3, num_ranks=2, tensors=["allreduce.of_set"])
    (found,) = pending(submit(writer, [0], tensors=["allreduce.of_set"]))
    assert (found.submitted, found.missing) == ((), ())


def test_a_negotiation_whose_operation_began_is_not_pending():
    writer = TimelineWriter()
    submit(writer, [0, 1], tensors=["allreduce.a"])
    writer.end("allreduce.a")
    writer.begin("allreduce.a", "ALLREDUCE")
    assert not pending(writer)


def test_a_recorded_hang_has_its_ranks():
    found = parse_timeline((RECORDINGS / "16_mpi_stall_shutdown.json").read_text()).summary.pending
    assert len(found) == 8
    assert {(one.submitted, one.missing) for one in found} == {((0,), (1,))}
