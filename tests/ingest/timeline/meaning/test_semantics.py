from hvdprof.ingest.timeline.horovod_timeline import parse_timeline
from hvdprof.ingest.timeline.meaning.semantics import sessions_of
from hvdprof.model.notes import texts
from tests.builders.timeline_writer import EPOCH_US, TimelineWriter


def recording(epoch_us: int | None) -> str:
    writer = TimelineWriter(epoch_us=epoch_us)
    writer.negotiate(["allreduce.a"])
    writer.execute(["allreduce.a"])
    return writer.text()


def test_files_with_one_header_share_an_axis_those_without_stand_alone() -> None:
    assert sessions_of([5, None, 7, 5, None]) == ((0, 3), (1,), (2,), (4,))
    assert sessions_of([]) == ()


def test_a_later_process_in_the_same_file_is_put_on_the_axis_of_the_first() -> None:
    later_us = 3_000_000
    text = recording(EPOCH_US) + "\n" + recording(EPOCH_US + later_us)
    file = parse_timeline(text)
    starts = file.rows.start_us.tolist()
    assert starts[3:] == [start + later_us for start in starts[:3]]
    assert file.epoch_us == EPOCH_US
    assert file.uses.occurrence.tolist() == [0, 1]
    assert any("recordings of 2 processes" in problem for problem in texts(file.problems))


def test_a_process_that_writes_its_header_twice_moves_nothing() -> None:
    once, twice = recording(EPOCH_US), recording(EPOCH_US) + "\n" + recording(EPOCH_US)
    starts = parse_timeline(once).rows.start_us.tolist()
    assert parse_timeline(twice).rows.start_us.tolist() == 2 * starts
