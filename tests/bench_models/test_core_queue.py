"""Time that a thread waits for a core, and models whose waits make up for it."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hvdprof.bench_models.emulated import CoreQueue

pytestmark = [
    pytest.mark.timing,
    pytest.mark.skipif(
        not Path("/proc/thread-self/schedstat").exists(), reason="no scheduler statistics"
    ),
]
_BUSY = "import os; os.sched_setaffinity(0, {%d}); print(flush=True)\nwhile True: pass"


@pytest.fixture
def shared_core():
    """The test runs on a core that another process wants all the time."""
    allowed = os.sched_getaffinity(0)
    core = max(allowed)
    busy = subprocess.Popen([sys.executable, "-c", _BUSY % core], stdout=subprocess.PIPE)
    try:
        busy.stdout.readline()
        os.sched_setaffinity(0, {core})
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        busy.kill()
        busy.wait()
        busy.stdout.close()


def compute(length_s):
    """Use as much processor time; the time that passed."""
    begin_s, until_s = time.perf_counter(), time.thread_time() + length_s
    while time.thread_time() < until_s:
        pass
    return time.perf_counter() - begin_s


def test_what_another_process_takes_of_a_core_is_counted(shared_core):
    queue = CoreQueue()
    queue.passed_s()
    passed_s = compute(0.3)
    assert queue.passed_s() == pytest.approx(passed_s - 0.3, abs=0.03)
    # Otherwise nothing was measured: both had the core half of the time.
    assert passed_s > 0.45


def test_what_is_slept_is_not_counted():
    queue = CoreQueue()
    queue.passed_s()
    time.sleep(0.2)
    assert queue.passed_s() < 0.1


def test_another_thread_starts_anew(shared_core):
    queue, passed_s = CoreQueue(), []
    queue.passed_s()
    compute(0.1)
    other = threading.Thread(target=lambda: passed_s.append(queue.passed_s()))
    other.start()
    other.join()
    assert passed_s == [0.0]


@pytest.mark.torch
def test_a_model_makes_up_for_what_its_backward_waits_for_a_core(shared_core):
    import torch

    from hvdprof.bench_models.registry import model_named

    model = model_named("emulate:mnist@0.6").build()
    computed_s = []
    for name, parameter in model.named_parameters():
        # Of the last layers, whose backward comes first: there are waits after it.
        if name.startswith("fc"):
            parameter.register_post_accumulate_grad_hook(
                lambda _one: computed_s.append(compute(0.03))
            )
    output = model(torch.zeros(1, 1, 28, 28)).sum()
    begin_s = time.perf_counter()
    output.backward()
    backward_s = time.perf_counter() - begin_s
    own_s = 0.03 * len(computed_s)
    assert len(computed_s) == 4
    assert sum(computed_s) > own_s + 0.08
    assert backward_s == pytest.approx(0.4 + own_s, abs=0.03)
