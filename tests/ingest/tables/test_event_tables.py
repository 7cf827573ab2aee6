import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hvdprof.ingest.recorder.session_rows import UNKNOWN_ERROR_NS
from hvdprof.ingest.storage.blocks import stacked
from hvdprof.ingest.tables.event_tables import (
    StepTimes,
    TimelineClock,
    timeline_blocks,
    timeline_clock,
)
from hvdprof.ingest.timeline.horovod_timeline import (
    TimelineFile,
    parse_timeline,
    read_timeline_file,
)
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_tables import EXECUTIONS, INFERRED_STEPS, TENSOR_USES
from tests.builders.places import RECORDINGS
from tests.builders.timeline_writer import TimelineWriter

CLOCK = TimelineClock(zero_ns=7_000_000_000, error_ns=2000)
TABLES = (EVENTS, TENSOR_USES, EXECUTIONS, INFERRED_STEPS)
NO_STEPS = StepTimes(*(np.empty(0, np.int64),) * 3)


def tables_of(file: TimelineFile, steps: StepTimes | None) -> dict[str, pd.DataFrame]:
    blocks = timeline_blocks(("04-np2-trace-r1", "mlp"), file, CLOCK, steps)
    return {
        table.name: stacked(table, [blocks[table.name]] if table.name in blocks else [])
        for table in TABLES
    }


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(RECORDINGS.glob("*.json")) if "truth" not in path.name],
    ids=lambda path: path.stem,
)
def test_all_tables_are_as_declared_and_count_the_same(path: Path) -> None:
    tables = tables_of(read_timeline_file(path), None)
    events, uses, executions = (tables[name] for name in ("events", "tensor_uses", "executions"))
    operations = events[events["phase"] == "operation"]
    assert executions["num_tensors"].sum() == len(operations) == uses["start_ns"].notna().sum()
    assert set(operations["fusion_id"]) == set(executions["fusion_id"])
    assert operations["size_bytes"].sum() == uses["size_bytes"].sum()
    assert (uses["negotiation_start_ns"].dropna() >= CLOCK.zero_ns).all()
    for table in TABLES:
        assert (tables[table.name]["clock_error_ns"] == CLOCK.error_ns).all()


def test_executions_and_uses_say_the_same_as_the_rows() -> None:
    writer = TimelineWriter()
    writer.negotiate(["allreduce.a", "allreduce.b"], ranks=(0, 1))
    writer.execute(["allreduce.a", "allreduce.b"])
    tables = tables_of(parse_timeline(writer.text()), None)
    uses = tables["tensor_uses"]
    assert uses["negotiation_start_ns"].tolist() == [7_000_001_000, 7_000_005_000]
    assert uses["negotiation_ns"].tolist() == [3000, 3000]
    assert uses["start_ns"].tolist() == [7_000_009_000, 7_000_010_000]
    assert uses["size_bytes"].tolist() == [32, 32]
    assert uses["fusion_id"].tolist() == [0, 0]
    assert uses["last_rank"].isna().all()
    assert uses["last_after_ns"].tolist() == [1000, 1000]
    (execution,) = tables["executions"].to_dict("records")
    assert execution["start_ns"] == 7_000_009_000
    assert execution["dur_ns"] == 7000
    assert execution["transfer_ns"] == 2000
    assert execution["size_bytes"] == 64


def test_what_the_file_does_not_say_is_missing_and_never_zero() -> None:
    writer = TimelineWriter()
    writer.begin("alltoall.x", "NEGOTIATE_ALLTOALL")
    tables = tables_of(parse_timeline(writer.text()), None)
    (use,) = tables["tensor_uses"].to_dict("records")
    missing = ["negotiation_ns", "start_ns", "dur_ns", "size_bytes", "first_rank", "last_rank"]
    assert all(pd.isna(use[column]) for column in missing)
    assert use["dtype"] == ""
    assert use["fusion_id"] == -1
    assert len(tables["executions"]) == 0


def trained() -> TimelineFile:
    writer = TimelineWriter()
    for _ in range(4):
        writer.now_us += 1000
        writer.negotiate(["allreduce.a", "allreduce.b"])
        writer.execute(["allreduce.a"])
        writer.execute(["allreduce.b"])
    return parse_timeline(writer.text())


def test_inferred_steps_replace_missing_recordings() -> None:
    tables = tables_of(trained(), None)
    steps = tables["inferred_steps"]
    assert steps["step"].tolist() == [0, 1, 2, 3]
    assert steps["dur_ns"].tolist()[:3] == [1_012_000] * 3
    assert steps["dur_ns"].isna().tolist() == [False, False, False, True]
    assert steps["communication_ns"].tolist() == [11_000] * 4
    assert steps["size_bytes"].tolist() == [64] * 4
    assert set(tables["events"]["step"]) == {0, 1, 2, 3}
    assert tables["executions"]["step"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_recorded_steps_win_and_where_rank_0_recorded_none_there_are_none() -> None:
    file = trained()
    start_ns = CLOCK.zero_ns + int(file.rows.start_us[6]) * 1000
    recorded = StepTimes(np.asarray([17]), np.asarray([start_ns]), np.asarray([start_ns + 10**12]))
    tables = tables_of(file, recorded)
    assert tables["events"]["step"].tolist() == [-1] * 6 + [17] * 18
    assert len(tables["inferred_steps"]) == 0
    assert set(tables_of(file, NO_STEPS)["events"]["step"]) == {-1}


def test_times_since_the_recording_began_have_no_place_on_a_clock() -> None:
    writer = TimelineWriter(epoch_us=None)
    writer.negotiate(["allreduce.a"])
    assert timeline_clock(parse_timeline(writer.text()), None).error_ns == UNKNOWN_ERROR_NS
    since_boot = TimelineWriter(epoch_us=None)
    since_boot.now_us = 10**12
    since_boot.negotiate(["allreduce.a"])
    assert timeline_clock(parse_timeline(since_boot.text()), None).error_ns < UNKNOWN_ERROR_NS


def disordered(numbers: random.Random, text: str) -> str:
    """A timeline with records lost, doubled, exchanged, cut and turned into others."""
    records = text.split("},")
    for _ in range(numbers.randint(1, 8)):
        one, other = numbers.randrange(len(records)), numbers.randrange(len(records))
        match numbers.randrange(6):
            case 0:
                records.insert(other, records[one])
            case 1:
                records[one], records[other] = records[other], records[one]
            case 2:
                records[one] = records[one][: numbers.randrange(len(records[one]) + 1)]
            case 3:
                records[one] = records[one].replace('"B"', '"E"')
            case 4:
                records[one] = records[one].replace('"E"', '"B", "name": "ALLREDUCE"')
            case _:
                records[one : one + numbers.randint(1, 20)] = [""]
    return "},".join(records)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["06_mpi_adasum", "13_gloo_all_ops_join_barrier_error"])
def test_tables_of_disordered_files_agree_with_each_other(name: str) -> None:
    numbers = random.Random(3)
    text = (RECORDINGS / f"{name}.json").read_text()
    for _ in range(60):
        tables = tables_of(parse_timeline(disordered(numbers, text)), None)
        events, uses = tables["events"], tables["tensor_uses"]
        operations = events[events["phase"] == "operation"]
        assert tables["executions"]["num_tensors"].sum() == len(operations)
        assert uses["start_ns"].notna().sum() == len(operations)
        assert not uses.duplicated(["tensor", "occurrence"]).any()
        assert uses["num_ticks"].sum() <= (events["phase"] == "mark").sum()
