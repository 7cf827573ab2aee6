from types import SimpleNamespace

import pytest
import torch

from bench_models.registry import model_named
from bench_models.training import Job, agreed_steps, learning_rate_scale, make_batches
from hvdprof.errors import UsageError
from tests.builders.training_job import plan, segment


def job(hvd=None, *, size: int = 1, device: str = "cpu", **values) -> Job:
    return Job(plan(size, **values), 0, size, device, hvd)


def slowest_of(*others_s: float):
    """Horovod whose other ranks report these warm-up times."""

    def allreduce(tensor, op, name):
        assert op == "max"
        return max(tensor, *(torch.tensor([one], dtype=tensor.dtype) for one in others_s))

    return SimpleNamespace(allreduce=allreduce, Max="max")


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
    assert agreed_steps(job(slowest_of(0.05), size=2), one, 0.1) == 20
    assert agreed_steps(job(slowest_of(0.2), size=2), one, 0.1) == 10


def test_segment_without_bounds_is_refused():
    with pytest.raises(UsageError, match="neither num_steps nor max_seconds"):
        agreed_steps(job(), segment("s", num_steps=None), 0.1)


@pytest.mark.parametrize(
    ("reduction", "device", "nccl", "scale"),
    [
        ("average", "cpu", False, 8),
        ("average", "cuda:0", True, 8),
        ("adasum", "cpu", True, 1),
        ("adasum", "cuda:0", False, 1),
        ("adasum", "cuda:0", True, 4),
    ],
)
def test_learning_rate_is_scaled_as_in_the_tutorial(reduction, device, nccl, scale):
    hvd = SimpleNamespace(nccl_built=lambda: nccl, local_size=lambda: 4)
    one = segment("s", reduction=reduction)
    assert learning_rate_scale(job(hvd, size=8, device=device), one) == scale


def test_plain_torch_keeps_the_learning_rate():
    assert learning_rate_scale(job(), segment("s", engine="torch")) == 1


@pytest.mark.parametrize(("data", "data_dir"), [("cifar", None), ("idx", None)])
def test_unknown_data_is_refused(data, data_dir):
    with pytest.raises(UsageError, match=f"unknown data '{data}'"):
        make_batches(job(data=data, data_dir=data_dir), segment("s"), model_named("mnist"))
