import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.timeline.horovod_timeline import TimelineFile, parse_timeline
from hvdprof.ingest.timeline.meaning.rounds import SINGLE_TENSOR, Reductions
from hvdprof.ingest.timeline.meaning.step_inference import infer_steps
from tests.builders.timeline_writer import TimelineWriter

GRADIENTS = tuple(f"allreduce.layer{number}" for number in range(5))
STEP_PAUSE_US = 20_000


def train(writer: TimelineWriter, order: tuple[str, ...], pause_us: int = STEP_PAUSE_US) -> int:
    """A step: compute, then reduce one gradient after the other. The time of its first record."""
    writer.now_us += pause_us
    for tensor in order:
        writer.now_us += 100
        writer.negotiate([tensor])
        writer.execute([tensor])
    return writer.now_us


def read(writer: TimelineWriter) -> TimelineFile:
    return parse_timeline(writer.text())


@pytest.mark.slow
@given(st.lists(st.permutations(GRADIENTS), min_size=4, max_size=8), st.integers(0, 4))
def test_steps_are_found_from_wherever_the_recording_begins(
    orders: list[list[str]], num_missed: int
) -> None:
    writer = TimelineWriter()
    train(writer, tuple(orders[0][num_missed:]))
    starts = []
    for order in orders[1:]:
        starts.append(writer.now_us + STEP_PAUSE_US + 101)
        train(writer, tuple(order))
    steps = read(writer).steps
    assert steps.refusal == ""
    assert steps.start_us.tolist()[1:] == starts
    assert steps.complete.tolist() == [num_missed == 0] + [True] * len(starts)
    assert steps.num_tensors.tolist() == [5 - num_missed] + [5] * len(starts)
    assert steps.confidence == 1.0
    assert steps.size_bytes.tolist()[1] == 5 * 32


def test_metrics_that_are_reduced_now_and_then_lower_the_confidence_only() -> None:
    writer = TimelineWriter()
    for _ in range(10):
        train(writer, GRADIENTS)
    writer.negotiate(["allreduce.loss"])
    writer.execute(["allreduce.loss"])
    steps = read(writer).steps
    assert len(steps) == 10
    assert 0.9 < steps.confidence < 1.0


def test_broadcasts_are_no_part_of_a_step() -> None:
    writer = TimelineWriter()
    for tensor in ("broadcast.a", "broadcast.b"):
        writer.negotiate([tensor], op="BROADCAST")
        writer.execute([tensor], op="BROADCAST", activities=("MPI_BCAST",))
    for _ in range(4):
        train(writer, GRADIENTS)
    assert read(writer).steps.num_tensors.tolist() == [5] * 4


def test_two_optimizers_that_step_unequally_often_are_refused() -> None:
    writer = TimelineWriter()
    for _ in range(6):
        for _ in range(4):
            train(writer, GRADIENTS[:3])
        train(writer, GRADIENTS[3:])
    assert "unequally often" in read(writer).steps.refusal


def test_sets_that_change_from_step_to_step_are_refused() -> None:
    writer = TimelineWriter()
    for first, second in itertools.islice(
        itertools.cycle([(0, 3), (1, 5), (2, 4), (0, 2), (3, 5)]), 40
    ):
        train(writer, GRADIENTS[first:second])
    assert "does not recur" in read(writer).steps.refusal


def test_without_a_pause_between_rounds_steps_are_refused() -> None:
    writer = TimelineWriter()
    for _ in range(8):
        train(writer, GRADIENTS, pause_us=0)
        writer.now_us -= 50
    steps = read(writer).steps
    assert "no pause" in steps.refusal
    assert len(steps) == 0


def test_unnamed_tensors_are_refused() -> None:
    writer = TimelineWriter()
    for number in range(30):
        train(writer, (f"allreduce.noname.{number}",))
    assert read(writer).steps.refusal == "no tensor is reduced 3 times"


def test_steps_inferred_from_one_tensor_have_low_confidence() -> None:
    writer = TimelineWriter()
    for _ in range(10):
        train(writer, GRADIENTS[:1])
    steps = read(writer).steps
    assert len(steps) == 10
    assert steps.confidence == SINGLE_TENSOR


def test_an_operation_of_unknown_size_leaves_the_step_without_a_size() -> None:
    writer = TimelineWriter()
    for _ in range(4):
        train(writer, GRADIENTS)
    writer.records[-1].pop("args")
    assert read(writer).steps.size_bytes.tolist() == [160, 160, 160, -1]


def test_a_file_without_reductions_shows_no_steps() -> None:
    steps = parse_timeline("[]").steps
    assert len(steps) == 0
    assert steps.refusal
    assert not np.any(steps.complete)


@st.composite
def trainings(draw: st.DrawFn) -> Reductions:
    """Rounds of a few tensors, of which some are missing, in any order."""
    width = draw(st.integers(1, 5))
    rows, now = [], 0
    for pause in draw(st.lists(st.sampled_from([5, 50, 900]), max_size=70)):
        now += pause
        for tensor in draw(st.permutations(range(width))):
            if draw(st.integers(0, 20)):
                now += 3
                rows.append((tensor, now, now + draw(st.integers(0, 30)), tensor * 8))
    table = np.asarray(rows, dtype=np.int64).reshape(-1, 4)
    return Reductions(table[:, 0].astype(np.int32), *(table[:, number] for number in (1, 2, 3)))


@pytest.mark.heavy
@given(trainings(), st.lists(st.integers(0, 350), max_size=6))
def test_steps_do_not_hang_on_the_parts_in_which_reductions_come(
    whole: Reductions, cuts: list[int]
) -> None:
    borders = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    parts = [
        Reductions(
            whole.tensor[first:last],
            whole.ready_us[first:last],
            whole.end_us[first:last],
            whole.size_bytes[first:last],
        )
        for first, last in itertools.pairwise(borders)
    ]
    expected, found = infer_steps(lambda: [whole]), infer_steps(lambda: parts)
    for field in dataclasses.fields(expected):
        left, right = getattr(expected, field.name), getattr(found, field.name)
        np.testing.assert_array_equal(left, right)
