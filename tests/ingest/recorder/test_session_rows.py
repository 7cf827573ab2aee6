import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.recorder.recorder_file import Exchange, RecorderFile, SegmentRecording
from hvdprof.ingest.recorder.recorder_lines import read_recorder_file
from hvdprof.ingest.recorder.session_rows import (
    UNKNOWN_ERROR_NS,
    alignment_of,
    exclude_evaluations,
    exclude_profiled,
    others_in,
)
from tests.builders.live_job import window
from tests.builders.recorder_lines import recorder_lines
from tests.builders.run_spec import PassSpec, SegmentSpec

NUM_STEPS = 6
EVALUATION_NS = 50_000_000
SPEC = PassSpec(segments=[SegmentSpec(num_warmup_batches=0, num_steps=NUM_STEPS)], size=2)

HEADER = {"rank": 1, "monotonic_ns": 500, "wall_ns": 10_500, "host": {"boot_id": "a"}}


def recording(folder: Path, rank: int, evaluates: set[int]) -> RecorderFile:
    """A rank whose steps of these numbers begin with an evaluation of 50 ms."""
    lines = list(recorder_lines(SPEC, rank))
    for line in lines:
        if line["kind"] == "step" and line["step"] in evaluates:
            _evaluates(line)
    path = folder / f"rank-{rank}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_recorder_file(path)


def _evaluates(line: dict) -> None:
    line["phases"] = [
        ["evaluation", 0, EVALUATION_NS],
        *([name, offset + EVALUATION_NS, length] for name, offset, length in line["phases"]),
    ]
    line["blocked"] = [[offset + EVALUATION_NS, length] for offset, length in line["blocked"]]
    line["ready"] = [offset + EVALUATION_NS for offset in line["ready"][:-1]] + [-1]
    line["start_ns"] -= EVALUATION_NS
    line["dur_ns"] += EVALUATION_NS
    line["evaluation"] = True
    line["evaluation_blocked_ns"] = 9_000_000


def segment(file: RecorderFile) -> SegmentRecording:
    (only,) = file.segments.values()
    return only


@pytest.fixture
def plain(tmp_path: Path) -> SegmentRecording:
    """Rank 0 without an evaluation."""
    return segment(recording(tmp_path, 0, set()))


def test_a_step_in_which_all_ranks_evaluate_begins_after_it_and_is_warmup(
    tmp_path: Path, plain: SegmentRecording
) -> None:
    files = [recording(tmp_path, rank, {3}) for rank in (0, 1)]
    exclude_evaluations(files)

    own, expected = segment(files[0]).step_table(), plain.step_table().copy()
    # The processor time of the segment holds that of the evaluation.
    assert segment(files[0]).recorded_ns == plain.recorded_ns + EVALUATION_NS
    expected[3, 1] = 1
    np.testing.assert_array_equal(own, expected)
    assert segment(files[0]).evaluations().tolist() == [3]
    ready = segment(files[0]).ready_table()
    np.testing.assert_array_equal(ready[:, :-1], plain.ready_table()[:, :-1])
    assert ready[3, -1] == -1


MINUTE_NS = 60_000_000_000


@pytest.mark.parametrize(
    ("minutes", "hosts", "others"),
    [(0, "aaa", []), (2, "aaa", [2]), (-2, "aaa", [2]), (2, "aab", []), (90, "aab", [2])],
)
def test_a_recording_of_another_time_is_of_another_job(
    tmp_path: Path, minutes: int, hosts: str, others: list[int]
) -> None:
    files = {rank: recording(tmp_path, rank % 2, set()) for rank in range(3)}
    for rank, file in files.items():
        later_ns = minutes * MINUTE_NS if rank == 2 else 0
        wall_ns = file.header_number("wall_ns", 0) + later_ns
        file.header |= {"rank": rank, "wall_ns": wall_ns, "host": {"boot_id": hosts[rank]}}
    assert list(others_in(files)) == others
    files[1].header |= {"rank": 5}
    found = others_in(files)
    assert found[1].text == "its header names rank 5: left out"
    # Of two recordings at different times, that of the lowest rank is the job.
    assert sorted(found) == [1, *others]


def test_an_evaluation_begins_where_the_step_before_ended(tmp_path: Path) -> None:
    files = [recording(tmp_path, rank, {3}) for rank in (0, 1)]
    before = segment(files[0]).evaluation_table()
    exclude_evaluations(files)

    start_ns = int(segment(files[0]).step_table()[3, 2]) - EVALUATION_NS
    assert before.tolist() == [[3, start_ns, EVALUATION_NS, 0, 9_000_000, 0]]
    np.testing.assert_array_equal(segment(files[0]).evaluation_table(), before)


def test_steps_without_gradients_are_cut_too(tmp_path: Path) -> None:
    files = [recording(tmp_path, rank, {3}) for rank in (0, 1)]
    for file in files:
        own = segment(file)
        own.tensors.clear()
        del own.ready_ns[:]
    exclude_evaluations(files)

    assert segment(files[0]).step_table()[:, 1].tolist() == [0, 0, 0, 1, 0, 0]


def test_a_forward_pass_before_the_evaluation_is_in_no_part(tmp_path: Path) -> None:
    """A forward pass of 4 ms, 1 ms of it blocked, precedes the evaluation."""
    files = []
    for rank in (0, 1):
        lines = list(recorder_lines(SPEC, rank))
        (line,) = (line for line in lines if line["kind"] == "step" and line["step"] == 3)
        _evaluates(line)
        line["phases"][:1] = [["forward", 0, 4_000_000], ["evaluation", 4_000_000, 46_000_000]]
        line["blocked"].insert(0, [1_000_000, 1_000_000])
        path = tmp_path / f"rank-{rank}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        files.append(read_recorder_file(path))
    exclude_evaluations(files)

    expected = segment(recording(tmp_path, 0, set())).step_table()
    np.testing.assert_array_equal(segment(files[0]).step_table()[3, 2:], expected[3, 2:])


def test_the_pieces_of_such_a_step_keep_their_times(tmp_path: Path) -> None:
    files = [recording(tmp_path, rank, {3}) for rank in (0, 1)]
    before = _times(segment(files[0]))
    exclude_evaluations(files)

    assert _times(segment(files[0])) == before


def _times(recorded: SegmentRecording) -> list[tuple[int, int]]:
    row, offset_ns, dur_ns = recorded.part_table().T
    starts = recorded.step_table()[row, 2] + offset_ns
    return list(zip(starts.tolist(), dur_ns.tolist(), strict=True))


def test_where_a_rank_evaluates_alone_the_step_counts(tmp_path: Path) -> None:
    files = [recording(tmp_path, 0, {2, 3}), recording(tmp_path, 1, {3})]
    exclude_evaluations(files)

    tables = [segment(file).step_table() for file in files]
    assert [table[:, 1].tolist() for table in tables] == [[0, 0, 0, 1, 0, 0]] * 2
    assert tables[0][2, 3] == tables[1][2, 3] + EVALUATION_NS
    # The rest of the step, in which the evaluation is.
    assert tables[0][2, -1] == tables[1][2, -1] + EVALUATION_NS


def test_a_recording_that_is_cut_off_does_not_decide_on_later_steps(tmp_path: Path) -> None:
    files = [recording(tmp_path, rank, {1, 4}) for rank in (0, 1)]
    path = tmp_path / "rank-1.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    short = [line for line in lines if line["kind"] != "step" or line["step"] < 3]
    path.write_text("".join(json.dumps(line) + "\n" for line in short))
    files[1] = read_recorder_file(path)
    exclude_evaluations(files)

    assert segment(files[0]).step_table()[:, 1].tolist() == [0, 1, 0, 0, 1, 0]
    assert segment(files[1]).step_table()[:, 1].tolist() == [0, 1, 0]


def test_without_an_evaluation_or_a_file_nothing_changes(plain: SegmentRecording) -> None:
    before = plain.step_table().copy()
    exclude_evaluations([RecorderFile(segments={plain.id: plain})])
    exclude_evaluations([])

    np.testing.assert_array_equal(plain.step_table(), before)


def test_a_step_that_one_rank_profiles_is_warmup_on_all(tmp_path: Path) -> None:
    files = []
    for rank in (0, 1):
        lines = list(recorder_lines(SPEC, rank))
        for line in lines:
            if rank == 1 and line["kind"] == "step" and line["step"] in (2, 3):
                line["profiled"] = True
        path = tmp_path / f"rank-{rank}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        files.append(read_recorder_file(path))
    exclude_profiled(files)

    warmup = [segment(file).step_table()[:, 1].tolist() for file in files]
    assert warmup == [[0, 0, 1, 1, 0, 0]] * 2


def test_windows_that_hold_a_profiled_step_are_warmup_on_all(tmp_path: Path) -> None:
    files = []
    for rank, bounds in enumerate(([(0, 7), (8, 15), (16, 23)], [(0, 9), (10, 10), (11, 23)])):
        lines = [window(first, last, own=10, length=20) for first, last in bounds]
        extra = {"start_ns": 0, "after_ns": 0, "longest": [0, 1, 0, "", 0]}
        lines = [line | extra for line in lines]
        lines[1]["profiled"] = rank == 1
        path = tmp_path / f"rank-{rank}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        files.append(read_recorder_file(path))
    exclude_profiled(files)

    warmup = [segment(file).windows.table()["warmup"].tolist() for file in files]
    assert warmup == [[0, 1, 0], [0, 1, 0]]


def exchange(monotonic_ns: int, offset_ns: int, error_ns: int = 7, method: str = "tcp") -> Exchange:
    return Exchange(monotonic_ns, offset_ns, error_ns, method)


@pytest.mark.heavy
@given(
    offset_ns=st.integers(-(10**15), 10**15),
    drift_ppm=st.floats(-200, 200),
    start_ns=st.integers(0, 10**16),
    length_ns=st.integers(10**6, 10**13),
    at=st.floats(0, 1),
)
def test_a_clock_of_constant_rate_is_undone(
    offset_ns: int, drift_ppm: float, start_ns: int, length_ns: int, at: float
) -> None:
    def offset_at(monotonic_ns: int) -> int:
        return offset_ns + round(drift_ppm * 1e-6 * (monotonic_ns - start_ns))

    end_ns = start_ns + length_ns
    file = RecorderFile(
        exchanges=[exchange(start_ns, offset_at(start_ns)), exchange(end_ns, offset_at(end_ns))]
    )
    time_ns = start_ns + round(at * length_ns)
    (aligned_ns,) = alignment_of(file, None).aligned_ns(np.asarray([time_ns]))
    assert abs(int(aligned_ns) - (time_ns + offset_at(time_ns))) <= 2


def test_the_error_is_the_larger_of_both_exchanges() -> None:
    file = RecorderFile(exchanges=[exchange(0, 5, 30), exchange(100, 5, 80)])
    assert list(alignment_of(file, None).errors_ns(np.asarray([0, 50]))) == [80, 80]


def test_a_damaged_exchange_leaves_the_error_unknown() -> None:
    file = RecorderFile(exchanges=[exchange(0, 5), exchange(100, 2**60)])
    times = np.asarray([0, 2**60])
    assert list(alignment_of(file, None).aligned_ns(times)) == [5, 2**60 + 5]
    assert list(alignment_of(file, None).errors_ns(times)) == [UNKNOWN_ERROR_NS] * 2


def test_without_a_second_exchange_the_error_grows() -> None:
    file = RecorderFile(exchanges=[exchange(0, 5, 30)])
    assert list(alignment_of(file, None).errors_ns(np.asarray([0, 10**9]))) == [30, 100_030]


def test_one_clock_does_not_drift_from_itself() -> None:
    file = RecorderFile(exchanges=[exchange(0, 0, 0, "same-clock")])
    assert list(alignment_of(file, None).errors_ns(np.asarray([10**9]))) == [0]


def test_processes_of_one_boot_share_the_clock() -> None:
    alignment = alignment_of(RecorderFile(header=HEADER), RecorderFile(header=HEADER | {"rank": 0}))
    assert (alignment.method, alignment.offset_ns, alignment.error_ns) == ("same-clock", 0, 0)


def test_across_hosts_the_wall_clocks_stand_in_with_an_unknown_error() -> None:
    rank_0 = RecorderFile(header={"monotonic_ns": 0, "wall_ns": 9_000, "host": {"boot_id": "b"}})
    alignment = alignment_of(RecorderFile(header=HEADER), rank_0)
    assert alignment.method == "wall-clock"
    assert alignment.aligned_ns(np.asarray([500])) == [1_500]
    assert alignment.error_ns == UNKNOWN_ERROR_NS


def test_without_anything_to_go_by_the_error_is_unknown() -> None:
    alignment = alignment_of(RecorderFile(), None)
    assert (alignment.method, alignment.error_ns) == ("none", UNKNOWN_ERROR_NS)
