from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hvdprof.analyze.predict.costs.ddp_buckets import (
    bucket_limits,
    ddp_buckets,
    recorded_buckets,
    simulate_ddp,
)
from hvdprof.model.run import Run
from hvdprof.rundir.launch_format import DdpFacts
from tests.builders.examples import examples
from tests.builders.traced_run import traced_run

MB = 2**20
MIB = 2**20
DEFAULT = (MIB, 25 * MIB)
BENCH: dict[str, Any] = {"sizes": [1, 2], "script": None}
SCRIPT: dict[str, Any] = {"script": {"command": ["python", "train.py"]}}


def cost_of(size):
    """10 ns per collective and 1 ns per byte."""
    return 10.0 + size


def places_of(*args, **named):
    return [bucket.tolist() for bucket in ddp_buckets(*args, **named)]


def test_the_gradient_that_reaches_the_limit_closes_the_bucket():
    # 1 MiB closes the first bucket, 25 MiB each of the others.
    sizes = [MB // 2, MB, 20 * MB, 20 * MB, 1]

    assert places_of(sizes) == [[0, 1], [2, 3], [4]]


def test_every_dtype_has_buckets_and_limits_of_its_own():
    codes = np.array([0, 1, 0, 1])

    assert places_of([5, 5, 5, 5], (10, 100), dtype_codes=codes) == [[0, 2], [1, 3]]
    assert places_of([10, 4, 5, 4], (10, 100), dtype_codes=codes) == [[0], [1, 3], [2]]


def test_a_cap_of_the_script_holds_for_the_first_bucket_too():
    assert bucket_limits(None) == (MB, 25 * MB)
    assert bucket_limits(2.5) == (5 * MB // 2,)


def test_a_bucket_waits_for_its_last_gradient_and_for_the_bucket_before():
    ready = np.array([[0.0, 100.0, 110.0, 500.0], [0.0, 10.0, 20.0, 30.0]])
    sizes = [50, 50, 40, 30]

    step = simulate_ddp(ready, sizes, ddp_buckets(sizes, (100, 40)), cost_ns=cost_of)

    # Draw 0: 100 + 110, then 210 + 50 (ready at 110), then 500 + 40 (ready at 500).
    assert step.end_ns.tolist() == [540.0, 10.0 + 110 + 50 + 40]
    assert step.num_executions.tolist() == [3, 3]
    assert step.exposed.execution_ns.tolist() == [40.0, 180.0]


@st.composite
def backward_passes(draw):
    num = draw(st.integers(1, 12))
    sizes = draw(st.lists(st.integers(1, 50), min_size=num, max_size=num))
    codes = draw(st.lists(st.integers(0, 2), min_size=num, max_size=num))
    ready = draw(st.lists(st.integers(0, 200), min_size=num, max_size=num))
    limits = draw(st.sampled_from([(1,), (30,), (10, 60), (10_000,)]))
    return sizes, np.array(codes), np.array([ready], dtype=float), limits


@given(backward_passes())
@settings(max_examples=examples(200))
def test_buckets_follow_each_other_as_in_a_literal_reducer(case):
    sizes, codes, ready, limits = case
    buckets = ddp_buckets(sizes, limits, codes)
    assert sorted(place for bucket in buckets for place in bucket) == list(range(len(sizes)))

    # Time passes in whole ns: a bucket is submitted, in order, once all of it is ready.
    pending = dict(enumerate(ready[0]))
    now, waiting, ends = 0.0, list(buckets), 0.0
    while waiting:
        if all(pending[place] <= now for place in waiting[0]):
            bucket = waiting.pop(0)
            ends = max(now, ends) + cost_of(sum(sizes[place] for place in bucket))
        else:
            now += 1.0
    step = simulate_ddp(ready, sizes, buckets, cost_ns=cost_of)

    assert step.end_ns[0] == pytest.approx(ends)
    for bucket in buckets:
        assert len(set(codes[bucket])) == 1


@pytest.mark.torch
def test_buckets_are_those_of_torch():
    import torch
    from torch import distributed

    dtypes = [torch.float32, torch.float16, torch.float64]
    # Private, but the very function that DDP calls.
    assignment = vars(distributed)["_compute_bucket_assignment_by_size"]
    rng = np.random.default_rng(0)
    for round_number in range(60):
        codes = rng.integers(0, 1 + round_number % 3, rng.integers(1, 30))
        tensors = [torch.empty(int(rng.integers(1, 60)), dtype=dtypes[code]) for code in codes]
        limits = [(1,), (200,), (50, 300), (10**6,)][round_number % 4]
        assigned, _ = assignment(
            tensors, list(limits), [False] * len(tensors), list(range(len(tensors)))
        )
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
        ours = places_of(sizes, limits, dtype_codes=codes)
        num_closed = len(ours) - len(set(codes))
        assert [list(bucket) for bucket in assigned[:num_closed]] == ours[:num_closed]
        assert sorted(map(list, assigned)) == sorted(ours)


def _run(settings: dict[str, Any], cap: float | None, ddp: DdpFacts | None) -> Run:
    run, options = traced_run(), {"fusion_threshold_mb": cap}
    manifest = replace(run.manifest, settings=settings, options=options)
    return replace(run, manifest=manifest, ddp=ddp)


@pytest.mark.parametrize(
    ("settings", "cap", "ddp", "limits", "said"),
    [
        (BENCH, 8, None, (8 * MIB,), "their recorded size of 8 MiB"),
        (BENCH, None, None, DEFAULT, "their recorded sizes: DDP's default"),
        (
            SCRIPT,
            None,
            DdpFacts(gradient_bytes=8, bucket_cap_mb=0.5),
            (MIB // 2,),
            "size of 0.5 MiB",
        ),
        (SCRIPT, None, DdpFacts(gradient_bytes=8), DEFAULT, "their recorded sizes: DDP's default"),
        (
            SCRIPT,
            None,
            DdpFacts(gradient_bytes=8, has_cap_list=True),
            DEFAULT,
            "size for each bucket",
        ),
        (SCRIPT, None, None, DEFAULT, "are not recorded"),
        ({}, None, None, DEFAULT, "are not recorded"),
    ],
)
def test_the_limits_are_those_of_the_run(
    settings: dict[str, Any],
    cap: float | None,
    ddp: DdpFacts | None,
    limits: tuple[int, ...],
    said: str,
) -> None:
    found, sentence = recorded_buckets(_run(settings, cap, ddp))

    assert found == limits
    assert said in sentence
