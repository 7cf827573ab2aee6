"""Arguments that a launch gives to DDP, on one rank in this process; real ranks: test_run_ddp."""

import json

import pytest
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from hvdprof.collect.auto import ddp_arguments
from hvdprof.collect.auto.ddp_arguments import MEASURED_BYTES, DdpNotes, changed_arguments
from hvdprof.collect.auto.distributed_recording import DdpModels
from hvdprof.collect.session_factory import RECORDER_DIR
from hvdprof.rundir.json_codec import read_json
from hvdprof.rundir.launch_format import (
    BUCKET_CAP,
    BUCKET_VIEW,
    FACTS_FILE,
    FIND_UNUSED,
    FLIGHT_FOLDER,
    STATIC_GRAPH,
    DdpFacts,
)

pytestmark = pytest.mark.torch


def make(self, module, bucket_cap_mb=None, *, static_graph=False, find_unused_parameters=False):
    """A constructor of an older PyTorch."""


def changed(*args, environment, **kwargs):
    return changed_arguments(make, args, kwargs, environment)


def test_a_call_without_variables_stays_as_it_is() -> None:
    assert changed("net", 5, static_graph=True, environment={}) == (
        ("net", 5),
        {"static_graph": True},
    )


def test_variables_replace_arguments_by_place_and_by_name() -> None:
    variables = {BUCKET_CAP: "12.5", STATIC_GRAPH: "1", FIND_UNUSED: "0"}
    args, kwargs = changed("net", 5, find_unused_parameters=True, environment=variables)
    assert args == ("net", 12.5)
    assert kwargs == {"static_graph": True, "find_unused_parameters": False}
    assert changed("net", 5, environment={BUCKET_CAP: "default"})[0] == ("net", None)


def test_what_cannot_be_followed_is_one_line(capsys) -> None:
    assert changed("net", environment={BUCKET_VIEW: "1", BUCKET_CAP: "x"}) == (("net",), {})
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"hvdprof recorder: it has no effect: {BUCKET_CAP}=x is no size in MiB, nor default",
        f"hvdprof recorder: {BUCKET_VIEW} has no effect: this PyTorch has no "
        "gradient_as_bucket_view",
    ]


class Group:
    """A process group of two ranks that counts its allreduces."""

    def __init__(self):
        self.sizes = []

    def size(self):
        return 2

    def rank(self):
        return 0

    def allreduce(self, tensors):
        (tensor,) = tensors
        self.sizes.append(tensor.numel() * tensor.element_size())
        return self

    def wait(self):
        return True


@pytest.fixture
def wrap(tmp_path, monkeypatch):
    """Wraps a model of so many elements; returns the group and what is noted."""
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    group = Group()

    def wrapped(notes, elements, **kwargs):
        module = torch.nn.Linear(elements, 1, bias=False)
        model = type("Model", (), {"module": module, "process_group": group})()
        notes.wrapped(model, make, (module,), kwargs)
        return group, read_json(DdpFacts, tmp_path / FACTS_FILE)

    return wrapped


def notes_of(tmp_path, **more):
    return DdpNotes({RECORDER_DIR: str(tmp_path), **more})


def test_the_largest_model_is_noted_as_its_script_wraps_it(wrap, tmp_path) -> None:
    notes = notes_of(tmp_path)
    wrap(notes, 100, bucket_cap_mb=5, static_graph=True)
    _, facts = wrap(notes, 10)
    assert facts == DdpFacts(gradient_bytes=400, bucket_cap_mb=5.0, static_graph=True)


def test_allreduces_are_measured_once_and_in_trace_launches_alone(wrap, tmp_path) -> None:
    group, facts = wrap(notes_of(tmp_path), 2**18)
    assert (group.sizes, facts.allreduces) == ([], [])

    notes = notes_of(tmp_path, **{FLIGHT_FOLDER: "x"})
    wrap(notes, 2**18)
    group, facts = wrap(notes, 2**19)
    each = ddp_arguments.NUM_WARMUP + ddp_arguments.NUM_MEASURED
    # The model has 1 MiB, so no payload is larger than that.
    payloads = MEASURED_BYTES[:4]
    assert group.sizes == [one for one in payloads for _ in range(each)]
    assert len(facts.allreduces) == len(payloads) * ddp_arguments.NUM_MEASURED
    assert facts.gradient_bytes == 2**21
    assert all(time > 0 for _, time in facts.allreduces)


def test_a_group_of_some_ranks_measures_nothing(wrap, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(distributed, "get_world_size", lambda: 4)
    group, facts = wrap(notes_of(tmp_path, **{FLIGHT_FOLDER: "x"}), 100)
    assert (group.sizes, facts.allreduces) == ([], [])


def test_ddp_itself_follows_the_variables(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(DistributedDataParallel, "__init__", DistributedDataParallel.__init__)
    monkeypatch.setenv(RECORDER_DIR, str(tmp_path))
    for name, value in ((BUCKET_CAP, "0.5"), (STATIC_GRAPH, "1"), (BUCKET_VIEW, "1")):
        monkeypatch.setenv(name, value)
    failed = []
    models = DdpModels(failed.append)
    models.hook(DistributedDataParallel)
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        model = DistributedDataParallel(torch.nn.Linear(3, 2), bucket_cap_mb=100)
        wrong = {"no_such_argument": 1}
        with pytest.raises(TypeError):
            DistributedDataParallel(torch.nn.Linear(3, 2), **wrong)
    finally:
        distributed.destroy_process_group()
    assert failed == []
    assert (model.bucket_bytes_cap, model.static_graph, model.gradient_as_bucket_view) == (
        2**19,
        True,
        True,
    )
    assert json.loads((tmp_path / FACTS_FILE).read_text())["bucket_cap_mb"] == 0.5
