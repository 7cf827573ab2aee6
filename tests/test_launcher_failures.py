"""Launchers that fail before their ranks begin, for real: started again, or reported by cause."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builders.places import ROOT

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.timeout(300)]

SCRIPT = """
import os, sys
import torch
import torch.distributed as dist

sys.path.append(sys.argv[2])
from tests.builders.no_compiler import leave_out_compiler

leave_out_compiler()
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1]}
os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(40):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "hvdprof", *words]


def test_a_port_that_is_free_again_costs_a_second_start(tmp_path: Path) -> None:
    script, folder = tmp_path / "train.py", tmp_path / "run"
    script.write_text(SCRIPT)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = ("--launcher", "torchrun", "--np", "2", "--no-trace", "-o", str(folder))
        port = str(taken.getsockname()[1])
        running = subprocess.Popen(
            _command("run", *options, "--", sys.executable, str(script), port, str(ROOT)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        deadline = time.monotonic() + 120
        while not list(folder.glob("passes/*/stderr-start1.txt")) and running.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    printed, _ = running.communicate()

    assert running.returncode == 0, printed
    (record,) = json.loads((folder / "manifest.json").read_text())["passes"]
    assert record["status"] == "done"
    assert all("EADDRINUSE" in reason for reason in record["restarts"])
    assert "1 launch started again" in " ".join(printed.split())


def test_what_lasts_is_reported_by_its_cause_with_what_to_do(tmp_path: Path) -> None:
    unwritable = tmp_path / "file"
    unwritable.touch()
    ended = subprocess.run(
        _command("bench", "--preset", "quick", "--np", "2", "--models", "mnist", "--repeats", "1"),
        cwd=tmp_path,
        env={**os.environ, "OMPI_MCA_orte_tmpdir_base": str(unwritable)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 6
    printed = " ".join(ended.stdout.split())
    assert "Nothing was measured: 2 of 2 planned measurements failed." in printed
    assert "no rank reported in: call to mkdir was unable to create" in printed
    assert f"Directory: {unwritable}" in printed
    assert "set TMPDIR to a folder that you can write to" in printed
