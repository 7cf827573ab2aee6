import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

BEGIN = """
import sys, torch
from hvdprof.bench_models.placement import defer_compiler
defer_compiler()
"""
TRAINS = """
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=0.5, momentum=0.9)
optimizer.zero_grad()
weight.sum().backward()
optimizer.step()
assert weight.tolist() == [0.5, 0.5]
assert "sympy" not in sys.modules
"""
ASKS = {
    "attribute": "assert torch._dynamo.config.cache_size_limit",
    "module": "import torch._dynamo.utils; assert torch._dynamo.utils.get_optimize_ddp_mode",
    "walk": "import inspect; inspect.getmodule(print); assert 'sympy' not in sys.modules",
    "compiler": "assert torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)).item() == 2",
}


def _run(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True, timeout=240)


def test_an_optimizer_trains_without_the_compiler() -> None:
    _run(BEGIN + TRAINS)


@pytest.mark.slow
@pytest.mark.parametrize("asks", ASKS.values(), ids=ASKS)
def test_what_asks_for_the_compiler_gets_it(asks: str) -> None:
    _run(BEGIN + TRAINS + asks)


def test_a_compiler_that_is_there_stays() -> None:
    _run("import torch._dynamo as real\n" + BEGIN + "assert sys.modules['torch._dynamo'] is real")
