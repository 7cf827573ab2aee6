"""What a launch asks of a job of ``torch.distributed``: arguments of DDP, and calls at its end."""

import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, cast

from hvdprof.collect.engines.ddp_reduction import DdpModel, ProcessGroup
from hvdprof.collect.engines.torch_types import Parameter
from hvdprof.collect.guarded_context import print_problem
from hvdprof.collect.session_factory import RECORDER_DIR
from hvdprof.rundir.json_codec import to_text
from hvdprof.rundir.launch_format import (
    BUCKET_CAP,
    DDP_ARGUMENTS,
    FACTS_FILE,
    FLIGHT_FOLDER,
    DdpFacts,
    ddp_argument,
)
from hvdprof.rundir.written_file import file_mode, make_run_folders, write_whole

MEASURED_BYTES = (2**10, 2**14, 2**17, 2**20, 2**22, 2**24)
"""Payloads of the allreduces that are measured; at most one is larger than the model."""

LEAST_PAYLOADS = 3

NUM_WARMUP, NUM_MEASURED = 2, 6
"""Allreduces of each payload; all ranks make as many, so no rank may decide over their number."""

_FLOAT_BYTES = 4

Make = Callable[..., None]
"""The constructor of a class."""

Dump = Callable[[bool, bool], "str | bytes"]


class Work(Protocol):
    """A collective that was submitted."""

    def wait(self) -> object:
        """Block until it is complete."""


class Reducing(ProcessGroup, Protocol):
    """What is used of the process group of a model."""

    def rank(self) -> int:
        """The rank in the group."""

    def allreduce(self, tensors: list[object], /) -> Work:
        """Submit an allreduce of one tensor."""


def changed_arguments(
    make: Make,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    environment: Mapping[str, str] = os.environ,
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments of a call with those that variables of the launch set.

    One line on stderr names a variable that this PyTorch cannot follow.

    Args:
        make: The constructor.
        args: Of the script, without the object itself.
        kwargs: Of the script.
        environment: Holds the variables.

    Raises:
        TypeError: The constructor takes no such arguments.
    """
    known = inspect.signature(make).parameters
    given = inspect.signature(make).bind(None, *args, **kwargs)
    for name, argument in DDP_ARGUMENTS.items():
        if name not in environment:
            continue
        if argument not in known:
            print_problem(f"{name} has no effect: this PyTorch has no {argument}")
            continue
        try:
            value = ddp_argument(name, environment[name])
        except ValueError as error:
            print_problem(f"it has no effect: {error}")
            continue
        is_default = name == BUCKET_CAP and value is None
        given.arguments[argument] = known[argument].default if is_default else value
    return given.args[1:], given.kwargs


class DdpNotes:
    """Writes what rank 0 knows of the largest wrapped model.

    Args:
        environment: Names the folder of the recorder files, and says whether allreduces are
            measured: in trace passes alone, whose times are in no result.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._largest = -1
        self._allreduces: list[tuple[int, int]] = []

    def wrapped(
        self, model: DdpModel, make: Make, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> None:
        """A model has been wrapped on all of its ranks, and none of them trains it yet."""
        trained = [tensor for _, tensor in model.module.named_parameters() if tensor.requires_grad]
        size = sum(tensor.numel() * tensor.element_size() for tensor in trained)
        group = cast(Reducing, model.process_group)
        if self._measures(group, trained):
            self._allreduces = _allreduce_times(group, size)
        if size <= self._largest or group.rank() != 0:
            return
        self._largest = size
        call = inspect.signature(make).bind(None, *args, **kwargs)
        call.apply_defaults()
        given = call.arguments
        facts = DdpFacts(
            gradient_bytes=size,
            bucket_cap_mb=_cap_mb(given.get("bucket_cap_mb"), make),
            has_cap_list=bool(given.get("bucket_cap_mb_list")),
            gradient_as_bucket_view=bool(given.get("gradient_as_bucket_view")),
            static_graph=bool(given.get("static_graph")),
            find_unused_parameters=bool(given.get("find_unused_parameters")),
            allreduces=self._allreduces,
        )
        folder = self._environment.get(RECORDER_DIR)
        if folder:
            path = Path(folder) / FACTS_FILE
            write_whole(path, to_text(facts), mode=file_mode(path))

    def _measures(self, group: Reducing, trained: list[Parameter]) -> bool:
        """Whether all ranks of the job are here for the first time, and communicate on cores."""
        if self._allreduces or FLIGHT_FOLDER not in self._environment:
            return False
        # A rank of several smaller groups would keep the ranks of one of them waiting.
        is_whole = 1 < group.size() == sys.modules["torch.distributed"].get_world_size()
        return is_whole and all(str(tensor.device) == "cpu" for tensor in trained)


def _allreduce_times(group: Reducing, model_bytes: int) -> list[tuple[int, int]]:
    """Payload in bytes and ns of allreduces, up to one that is larger than the model."""
    torch = sys.modules["torch"]
    found = []
    num_smaller = sum(size < model_bytes for size in MEASURED_BYTES)
    for payload in MEASURED_BYTES[: max(LEAST_PAYLOADS, num_smaller + 1)]:
        tensor = torch.zeros(payload // _FLOAT_BYTES, dtype=torch.float32)
        for number in range(NUM_WARMUP + NUM_MEASURED):
            began = time.monotonic_ns()
            # Not torch.distributed.all_reduce, which counts as one of the script's.
            group.allreduce([tensor]).wait()
            if number >= NUM_WARMUP:
                found.append((payload, time.monotonic_ns() - began))
    return found


def _cap_mb(value: object, make: Make) -> float | None:
    """The size of buckets that a script gives; None where it is the default of its PyTorch."""
    usual = inspect.signature(make).parameters["bucket_cap_mb"].default
    return None if value is None or value == usual else float(value)  # type: ignore[arg-type]


def write_flight_dump(
    rank: int, dump: Dump | None = None, environment: Mapping[str, str] = os.environ
) -> None:
    """Write the calls that the ring buffer still holds to ``rank-RANK.json``.

    Nothing where no folder is asked for. A failure is one line on stderr: the recording is complete
    without the file. The key ``hvdprof_clock`` holds both clocks at one moment, ns: PyTorch takes
    its times on the wall clock, hvdprof on the monotonic one.

    Args:
        rank: The rank.
        dump: PyTorch's function; that of the loaded PyTorch when not given.
        environment: Names the folder.
    """
    folder = environment.get(FLIGHT_FOLDER)
    if not folder:
        return
    try:
        # Never the pickle beside it, which a reader would have to execute.
        dump = dump or sys.modules["torch._C._distributed_c10d"]._dump_fr_trace_json
        content = json.loads(dump(True, False))
        content["hvdprof_clock"] = {"wall_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}
        make_run_folders(Path(folder))
        path = Path(folder) / f"rank-{rank}.json"
        write_whole(path, json.dumps(content), mode=file_mode(path))
    except Exception as error:
        # An older PyTorch has no such function.
        print_problem(f"no Flight Recorder file: {type(error).__name__}: {error}")
