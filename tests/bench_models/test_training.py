from types import SimpleNamespace

import pytest
import torch

from hvdprof.bench_models.engine import PlainTorch
from hvdprof.bench_models.horovod_engine import HorovodEngine
from hvdprof.bench_models.registry import model_named
from hvdprof.bench_models.training import Job, agreed_steps, make_batches
from hvdprof.errors import UsageError
from tests.builders.training_job import plan, segment

pytestmark = pytest.mark.torch


def job(**values) -> Job:
    the_plan = plan(1, **values)
    return Job(the_plan, "cpu", PlainTorch(the_plan))


def horovod(size: int = 2, *, device: str = "cpu", **functions) -> HorovodEngine:
    """Horovod's engine over a stand-in: rank 0 of that many ranks, four a host."""
    place = {"rank": 0, "size": size, "local_rank": 0, "local_size": 4}
    known = {name: lambda value=value: value for name, value in place.items()}
    return HorovodEngine(plan(size, device=device), SimpleNamespace(**known, **functions))


def with_slowest_of(*others_s: float) -> Job:
    """Ranks of which the others report these warm-up times."""

    def allreduce(tensor, op, name):
        assert op == "max"
        return max(tensor, *(torch.tensor([one], dtype=tensor.dtype) for one in others_s))

    return Job(plan(2), "cpu", horovod(allreduce=allreduce, Max="max"))


@pytest.mark.parametrize(
    ("num_steps", "max_seconds", "steps"),
    [
        (7, None, 7),
        (None, 2.0, 20),
        (15, 2.0, 15),
        (500, 2.0, 20),
        (None, 0.001, 10),
        (4, 0.001, 4),
    ],
)
def test_number_of_steps(num_steps, max_seconds, steps):
    one = segment("s", num_steps=num_steps, max_seconds=max_seconds)
    assert agreed_steps(job(), one, 0.1) == steps


def test_slowest_rank_decides():
    one = segment("s", num_steps=None, max_seconds=2.0)
    assert agreed_steps(with_slowest_of(0.05), one, 0.1) == 20
    assert agreed_steps(with_slowest_of(0.2), one, 0.1) == 10


def test_segment_without_bounds_is_refused():
    with pytest.raises(UsageError, match="neither num_steps nor max_seconds"):
        agreed_steps(job(), segment("s", num_steps=None), 0.1)


@pytest.mark.parametrize(
    ("reduction", "device", "nccl", "scale"),
    [
        ("average", "cpu", False, 8),
        ("average", "cuda", True, 8),
        ("adasum", "cpu", True, 1),
        ("adasum", "cuda", False, 1),
        ("adasum", "cuda", True, 4),
    ],
)
def test_learning_rate_is_scaled_as_in_the_tutorial(reduction, device, nccl, scale):
    engine = horovod(8, device=device, nccl_built=lambda: nccl)
    assert engine.learning_rate_scale(segment("s", reduction=reduction)) == scale


def test_plain_torch_keeps_the_learning_rate():
    assert job().engine.learning_rate_scale(segment("s", engine="torch")) == 1


@pytest.mark.parametrize(("data", "data_dir"), [("cifar", None), ("idx", None)])
def test_unknown_data_is_refused(data, data_dir):
    with pytest.raises(UsageError, match=f"unknown data '{data}'"):
        make_batches(job(data=data, data_dir=data_dir), segment("s"), model_named("mnist"))
