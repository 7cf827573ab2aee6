from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.rundir.plan import PLAN_SCHEMA_VERSION, ModelName, Plan
from tests.builders.training_job import segment

SEGMENT = segment(
    "mnist-none-average",
    batch_size=64,
    num_warmup_batches=5,
    num_steps=None,
    max_seconds=2.5,
    timeline=True,
)
PLAN = Plan(
    schema_version=PLAN_SCHEMA_VERSION,
    pass_id="01-np2-trace-r1",
    mode="trace",
    size=2,
    num_threads=1,
    pin_cores=True,
    device="cpu",
    data="idx",
    data_dir="/data/mnist",
    seed=7,
    segments=[SEGMENT, replace(SEGMENT, id="steps", num_steps=30, max_seconds=None)],
    bucket_cap_mb=1.5,
)


def test_ranks_read_the_plan_that_the_launcher_wrote(tmp_path: Path) -> None:
    PLAN.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == PLAN


def test_a_damaged_plan_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    PLAN.write(path)
    path.write_text(path.read_text().replace('"batch_size": 64', '"batch_size": "64"'))
    with pytest.raises(UnreadableInputError, match=r"segments\[0\]\.batch_size is str, not int"):
        Plan.read(path)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("resnet50", ModelName("resnet50", None, 1)),
        ("emulate:resnet50@0.2", ModelName("resnet50", 0.2, 1)),
        ("emulate:vgg16:128@0.4", ModelName("vgg16", 0.4, 128)),
    ],
)
def test_a_model_may_be_emulated(text: str, parts: ModelName) -> None:
    assert ModelName.parse(text) == parts


@pytest.mark.parametrize("divisor", ["", "0", "-2", "1.5", "x", "²"])
def test_the_divisor_of_an_emulated_model_is_a_whole_number(divisor: str) -> None:
    with pytest.raises(UsageError, match="needs a whole number above 0 behind 'mnist'") as raised:
        ModelName.parse(f"emulate:mnist:{divisor}@0.2")
    assert raised.value.hint == "emulate:mnist:128@0.2 has gradients of 1/128 of the size."


@pytest.mark.parametrize("length", ["", "0", "-1", "nan", "601", "fast"])
def test_an_emulated_model_needs_a_step_length(length: str) -> None:
    with pytest.raises(UsageError, match="needs the seconds of a step") as raised:
        ModelName.parse(f"emulate:mnist@{length}")
    assert raised.value.hint == "emulate:mnist@0.2 waits 0.2 s per step."
