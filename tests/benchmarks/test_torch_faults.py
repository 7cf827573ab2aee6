import json
import subprocess
from types import SimpleNamespace

import pytest

from benchmarks import torch_faults
from benchmarks.attribution import CaseFailedError
from benchmarks.scripts.fault import Fault
from benchmarks.torch_faults import grid, page_text, run_case
from tests.benchmarks.test_attribution import result

# The script with the fault imports torch.
pytestmark = pytest.mark.torch


def test_every_engine_and_size_has_each_phase_and_a_clean_launch_per_share():
    cases = grid()
    assert len({case.name for case in cases}) == len(cases)
    first = cases[: len(cases) // 5]
    assert {(case.engine, case.np) for case in first} == {
        (engine, size) for engine in ("ddp", "fsdp") for size in (2, 4, 8)
    }
    assert sum(not case.phase for case in first) == 6
    assert all(case.rank == case.np - 1 for case in first if case.phase)


def test_the_fault_is_the_scripts_own(monkeypatch, tmp_path):
    launched = []

    def launch(command, **_options):
        launched.append(command)
        (tmp_path / case.name).mkdir()
        return SimpleNamespace(returncode=0)

    case = next(one for one in grid() if one.phase == "backward" and one.engine == "fsdp")
    clean = next(one for one in grid() if not one.phase and one.engine == "fsdp")
    with pytest.raises(CaseFailedError, match="no clean launch"):
        run_case(case, tmp_path)
    before = result(clean.name, phase="", share=0) | {"engine": "fsdp"}
    (tmp_path / "cases.jsonl").write_text(json.dumps(before) + "\n")
    monkeypatch.setattr(subprocess, "run", launch)
    monkeypatch.setattr(
        torch_faults, "found_in", lambda run, _rank: {"step_ns": before["step_ns"], "run": run}
    )
    found = run_case(case, tmp_path)
    words = launched[0]
    fault = Fault.parse(words[words.index("--fault") + 1])
    assert (fault.place, fault.ranks, fault.ms) == ("backward", (1,), pytest.approx(4.9))
    assert words[words.index("--engine") + 1] == "fsdp"
    assert (found["engine"], found["share"]) == ("fsdp", 0.07)
    assert found["fault_ns"] == pytest.approx(4.9e6)
    assert (tmp_path / case.name).exists()


def test_a_failed_launch_gives_no_result(monkeypatch, tmp_path):
    failed = SimpleNamespace(returncode=3, stdout="", stderr="no port")
    monkeypatch.setattr(subprocess, "run", lambda *_command, **_options: failed)
    with pytest.raises(CaseFailedError, match="no port"):
        run_case(grid()[0], tmp_path)


def test_every_engine_has_a_table_of_its_own():
    named = [(1, "backward", 6.6e6)]
    rows = [result("a", named=named) | {"engine": "ddp"}, result("b") | {"engine": "fsdp"}]
    ddp, fsdp = page_text(rows).split("**FSDP2**:")
    assert "| 1 of 1 | 1 of 1 |" in ddp
    assert "| 0 of 1 | 0 of 1 |" in fsdp
