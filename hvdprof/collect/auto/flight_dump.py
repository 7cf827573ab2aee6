"""Writes PyTorch's Flight Recorder at the end of a trace pass: when this rank submitted what.

PyTorch notes every collective in a ring buffer, also those of DDP's reducer, which no hook sees. It
does so where ``TORCH_FR_BUFFER_SIZE`` is set before the process group is made; hvdprof sets it in
trace passes alone. The file is the one that PyTorch writes itself, as JSON.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hvdprof.collect.guarded_context import print_problem
from hvdprof.rundir.written_file import file_mode, make_run_folders, write_whole

FLIGHT_FOLDER = "HVDPROF_FLIGHT_FOLDER"
"""Environment variable: the folder of the files, set in trace passes of ``torch.distributed``."""

Dump = Callable[[bool, bool], "str | bytes"]


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
