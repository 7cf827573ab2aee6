"""Checkpoints of torch.distributed.checkpoint are seen in real jobs as those of torch.save are."""

from pathlib import Path

import pytest

from hvdprof.api import load_run
from tests.builders import saving_script
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
DCP = "torch.distributed.checkpoint"


@pytest.mark.parametrize(("kind", "name"), [("ddp", "save"), ("fsdp2", "async_save")])
def test_checkpoints_of_two_ranks_are_seen(tmp_path: Path, kind: str, name: str) -> None:
    run = tmp_path / "run"
    own = ("--np", "2", "--launcher", "torchrun", "--no-trace", "--no-net", "--light", "--watch")
    script = ("python", str(saving_script.__file__), kind, name, str(tmp_path / "saved"))
    ended = hvdprof("run", "-q", "-o", str(run), *own, "--", *script)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    calls = load_run(run).table("named_calls").astype({"name": str, "file": str, "detail": str})
    saved = calls[calls["name"] != "garbage collection"]
    # What it calls itself, torch.save among them, is a part of it, or beside the training.
    assert set(saved["name"]) == {f"{DCP}.{name}"}
    assert (saved.groupby("rank").size() == 5).all()
    assert saved["rank"].nunique() == 2
    assert {Path(file).name for file in saved["file"]} == {"saving_script.py"}
    assert f"step-{5 * saving_script.EVERY - 1}" in set(saved["detail"])
    if name == "save":
        assert saved["duration_ns"].max() >= saving_script.SLOW_S * 1e9
        assert ended.stderr.count(" checkpoint once: A checkpoint of rank ") == 2
