"""The cost of the recorder under DDP and FSDP2: one short launch of one rank."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import recorder_cost

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_ddp_and_fsdp_have_rows_for_full_and_light_recordings() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    job = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    job |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    options = ["--engine", "ddp,fsdp", "--cases", "layers-2ms", "--pairs", "2", "--steps", "3"]
    done = subprocess.run(
        [sys.executable, str(Path(recorder_cost.__file__)), *options],
        env=os.environ | job,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "hvdprof:" not in done.stderr
    rows = [
        [cell.strip() for cell in line.split("|")]
        for line in done.stdout.splitlines()
        if line.startswith(("| ddp", "| fsdp"))
    ]
    assert [row[1:4] for row in rows] == [
        [engine, "layers-2ms", recording]
        for engine in ("ddp", "fsdp")
        for recording in ("full", "light")
    ]
    for row in rows:
        assert float(row[4].removesuffix(" ms")) > 2
        assert float(row[5].split()[0]) > 0


def test_other_engines_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        recorder_cost.main(["--engine", "horovod"])
    assert "unknown engine horovod" in capsys.readouterr().err
