"""By what the ranks of a job are connected."""

import sys
from types import SimpleNamespace

import pytest

from hvdprof.collect.clock import horovod_group, job_group
from hvdprof.collect.clock.job_group import rank_group
from hvdprof.collect.identity import Identity

TWO = Identity(rank=1, size=2, local_rank=1, local_size=2)


@pytest.fixture
def loaded(monkeypatch):
    """Puts modules in place of Horovod's and PyTorch's, as a script would have imported them."""

    def load(*, horovod: bool, distributed: bool):
        module = SimpleNamespace(is_initialized=lambda: horovod)
        monkeypatch.setitem(sys.modules, "horovod.torch", module)
        calls: list[str] = []

        def gather_over(name: str):
            def gather(*arguments):
                calls.append(name)
                return [arguments[-1]]

            return gather

        monkeypatch.setattr(horovod_group, "_all_gather", gather_over("horovod"))
        monkeypatch.setattr(job_group, "gather_over_store", lambda _: gather_over("store"))
        found = object() if distributed else None
        monkeypatch.setattr(job_group, "loaded_torch_distributed", lambda: found)
        return calls

    return load


@pytest.mark.parametrize(
    ("horovod", "distributed", "used"),
    [(True, False, "horovod"), (True, True, "horovod"), (False, True, "store")],
)
def test_horovod_goes_before_torch_distributed(loaded, horovod, distributed, used):
    calls = loaded(horovod=horovod, distributed=distributed)
    group = rank_group(TWO)
    assert (group.rank, group.size) == (1, 2)
    group.all_gather("value")
    assert calls == [used]


def test_one_rank_needs_no_peer(loaded):
    calls = loaded(horovod=False, distributed=True)
    assert rank_group(Identity(0, 1, 0, 1)).all_gather("alone") == ["alone"]
    assert calls == []


def test_ranks_without_a_connection_are_reported(loaded):
    loaded(horovod=False, distributed=False)
    with pytest.raises(OSError, match="Horovod is not initialised"):
        rank_group(TWO)
