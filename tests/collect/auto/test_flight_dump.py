"""The Flight Recorder of a rank as a file."""

import json
import os
import subprocess
import sys

import pytest

from hvdprof.collect.auto.ddp_arguments import write_flight_dump
from hvdprof.ingest.flight_recorder.dump_file import read_dump
from hvdprof.rundir.launch_format import FLIGHT_FOLDER
from tests.builders.places import ROOT

SCRIPT = """
import sys, torch, torch.distributed as dist
from hvdprof.collect.auto.ddp_arguments import write_flight_dump
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
for _ in range(3):
    dist.all_reduce(torch.zeros(5))
write_flight_dump(0)
# Threads of a group that is not ended end the process with SIGABRT, now and then.
dist.destroy_process_group()
"""


@pytest.mark.torch
def test_every_collective_of_a_real_process_is_in_the_file(tmp_path):
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TORCH_FR_BUFFER_SIZE": "100",
        FLIGHT_FOLDER: str(tmp_path / "flight"),
    }
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "store")],
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    path = tmp_path / "flight" / "rank-0.json"
    dump = read_dump(path)
    assert [call.collective for call in dump.calls] == 3 * ["ALLREDUCE"]
    assert {call.size_bytes for call in dump.calls} == {20}
    clock = json.loads(path.read_text())["hvdprof_clock"]
    # Wall time on both sides. PyTorch computes its own from a counter that it has calibrated on
    # the busy machine: by some of the 0.2 ms between the two.
    assert abs(clock["wall_ns"] - dump.calls[-1].created_ns) < 60e9


def test_nothing_is_written_where_no_folder_is_asked_for(tmp_path):
    def dump(_collectives, _active):
        raise AssertionError

    write_flight_dump(0, dump, {})


def test_a_failure_is_one_line(tmp_path, capsys):
    def dump(_collectives, _active):
        raise RuntimeError("no buffer")

    write_flight_dump(0, dump, {FLIGHT_FOLDER: str(tmp_path)})

    assert "no Flight Recorder file: RuntimeError: no buffer" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
