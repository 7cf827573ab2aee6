import numpy as np
import pytest

from hvdprof.ingest.storage.blocks import stacked
from hvdprof.ingest.tables.event_tables import timeline_blocks, timeline_clock
from hvdprof.ingest.timeline.horovod_timeline import parse_timeline
from hvdprof.ingest.timeline.syntax.parsed_timeline import LATEST_US
from hvdprof.model.tables.run_tables import EVENTS
from tests.builders.places import RECORDINGS

RECORDING = RECORDINGS / "12_dynamic_b_started_midop.json"
HUGE = 4_000_000_000_000_000_000


@pytest.mark.parametrize(
    ("ph", "moved"),
    [
        ('"B", "name": "ALLREDUCE", "pid": 1', 1),
        ('"X", "name": "0", "pid": 1, "dur": 0', 1),
        ('"i", "name": "CYCLE_START", "s": "g"', 1),
    ],
)
@pytest.mark.parametrize("sign", ["", "-"])
def test_a_time_that_no_clock_shows_spoils_itself_alone(ph: str, moved: int, sign: str) -> None:
    text = RECORDING.read_text()
    whole = parse_timeline(text)
    odd = parse_timeline(text[:-1] + f',{{"ph": {ph}, "ts": {sign}{HUGE}}}]')
    assert odd.problems[0].text.startswith(f"{moved} record has a time that no clock shows")
    assert odd.rows.start_us.tolist()[: len(whole.rows)] == whole.rows.start_us.tolist()
    assert abs(odd.rows.start_us[-1]) == LATEST_US
    block = timeline_blocks(("", ""), odd, timeline_clock(odd, None), None)
    starts = stacked(EVENTS, [block["events"]])["start_ns"]
    assert np.sign(starts.iloc[-1]) == (-1 if sign else 1)


def test_an_end_far_away_leaves_a_length_that_fits() -> None:
    text = (
        f'[{{"ph":"B","name":"ALLREDUCE","ts":-{HUGE},"pid":1}},{{"ph":"E","ts":{HUGE},"pid":1}}]'
    )
    file = parse_timeline(text)
    assert file.rows.dur_us.tolist() == [2 * LATEST_US]
    block = timeline_blocks(("", ""), file, timeline_clock(file, None), None)
    assert stacked(EVENTS, [block["events"]])["dur_ns"].tolist() == [2000 * LATEST_US]


def test_a_header_that_no_clock_shows_is_left_out() -> None:
    text = RECORDING.read_text()
    epoch = str(parse_timeline(text).epoch_us)
    file = parse_timeline(text.replace(epoch, str(HUGE)))
    assert file.epoch_us is None
    assert len(file.rows) == len(parse_timeline(text).rows)


def test_an_epoch_in_ns_is_read_as_ns_and_said() -> None:
    text = RECORDING.read_text()
    epoch_us = parse_timeline(text).epoch_us
    file = parse_timeline(text.replace(str(epoch_us), f"{epoch_us}123"))
    assert file.epoch_us == epoch_us
    assert file.problems[0].text.startswith("its header states the epoch in ns instead of µs")
