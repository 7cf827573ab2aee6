from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.predict.what_if import LARGEST_SIZE, SETTINGS, checked, targets
from hvdprof.errors import UsageError
from hvdprof.model.results.forecast import STRONG, Question
from tests.builders.predicted_jobs import stated_job

JOB = stated_job()
QUESTION = Question(sizes=(8, 16))


def test_sizes_are_ascending_and_once_each() -> None:
    assert checked(Question(sizes=(64, 8, 8))).sizes == (8, 64)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (Question(sizes=()), "numbers of ranks"),
        (Question(sizes=(0,)), "numbers of ranks"),
        (Question(sizes=(LARGEST_SIZE + 1,)), "numbers of ranks"),
        (replace(QUESTION, scaling="both"), "neither weak nor strong"),
        (replace(QUESTION, settings={"HOROVOD_LOG_LEVEL": "debug"}), "HOROVOD_LOG_LEVEL"),
        (replace(QUESTION, ranks_per_host=0), "at least one rank"),
    ],
)
def test_questions_that_cannot_be_answered(question: Question, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        checked(question)


def test_weak_scaling_keeps_the_batch_and_strong_scaling_shares_it() -> None:
    weak, strong = (
        [one.batch for one in targets(JOB, replace(QUESTION, scaling=scaling), 4)]
        for scaling in ("weak", STRONG)
    )

    assert weak == [1.0, 1.0]
    assert strong == [0.5, 0.25]


def test_settings_change_the_reduction_and_the_batch() -> None:
    settings = {
        "HOROVOD_FUSION_THRESHOLD": "1000000",
        "HOROVOD_CYCLE_TIME": "3.5",
        "compression": "fp16",
        "backward_passes_per_step": "2",
        "batch": "16",
    }
    assert set(settings) == set(SETTINGS)

    found = targets(JOB, replace(QUESTION, settings=settings), 4)[0]

    assert found.reduction.loop.cycle_ns == 3.5e6
    assert found.reduction.loop.fusion_bytes == 489 * 2048
    assert (
        found.reduction.gradients.size_bytes.sum() == JOB.reduction.gradients.size_bytes.sum() // 2
    )
    assert (found.passes, found.batch) == (2, 0.5)


@pytest.mark.parametrize(
    "settings",
    [
        {"compression": "int8"},
        {"batch": "-1"},
        {"batch": "0"},
        {"HOROVOD_CYCLE_TIME": "inf"},
        {"batch": "many"},
        {"backward_passes_per_step": "1.5"},
        {"HOROVOD_FUSION_THRESHOLD": "-1"},
    ],
)
def test_values_that_cannot_be_predicted(settings: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="predict"):
        targets(JOB, replace(QUESTION, settings=settings), 4)


def test_fusion_can_be_turned_off() -> None:
    question = replace(QUESTION, settings={"HOROVOD_FUSION_THRESHOLD": "0"})

    assert targets(JOB, question, 4)[0].reduction.loop.fusion_bytes == 0


def test_ddp_has_no_settings_of_horovod() -> None:
    job = replace(JOB, reduction=replace(JOB.reduction, buckets=(np.arange(10),)))

    with pytest.raises(UsageError, match="DDP has neither"):
        targets(job, replace(QUESTION, settings={"HOROVOD_CYCLE_TIME": "2"}), 4)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("HOROVOD_FUSION_THRESHOLD", "1MB", "bytes, 0 or more: 67108864 is 64 MiB"),
        ("HOROVOD_CYCLE_TIME", "0", "milliseconds, 0.001 or more"),
        ("batch", "0", "samples per rank and step, 1 or more"),
        ("backward_passes_per_step", "1.5", "a whole number of 1 or more"),
    ],
)
def test_a_refused_number_gives_unit_and_range(name: str, value: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"{name}={value}") as raised:
        targets(JOB, replace(QUESTION, settings={name: value}), 4)
    assert hint in str(raised.value.hint)
