"""Where input is lost: too few workers, their work, or what lies behind them."""

import math
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from hvdprof.analyze.findings import input_evidence as module
from hvdprof.analyze.findings.advice import Advice
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.input_evidence import InputEvidence, input_evidence
from hvdprof.model.tables.line_tables import LINE_SAMPLES
from hvdprof.model.tables.sample_tables import HOST_SAMPLES, RANK_MACHINE

LAUNCH = {"pass_id": "p", "segment": "s"}


class OneLaunch(Evidence):
    """Evidence whose launch speaks for its cell."""

    def rows_of(self, rows: pd.DataFrame, cell: Any) -> pd.DataFrame:
        return rows.astype({"pass_id": str, "segment": str})

    def launches_of(self, cell: Any) -> pd.DataFrame:
        return pd.DataFrame({"pass_id": ["p"], "segment": ["s"]})


def found(
    monkeypatch: pytest.MonkeyPatch,
    *,
    workers: int | None,
    busy: float = math.nan,
    busy_cores: float | None = 2.0,
    num_hosts: int = 1,
) -> InputEvidence:
    """Two ranks on a host of 8 cores, ``busy_cores`` of them busy; ``busy`` of their workers."""
    setting = SimpleNamespace(num_hosts=num_hosts, num_cores=8)
    monkeypatch.setattr(module, "cell_setting", lambda run, cell: setting)
    machine = [
        {
            **dict.fromkeys(RANK_MACHINE.column_names, math.nan),
            **LAUNCH,
            "rank": rank,
            "measure": "workers",
            "mean": float(workers),
            **dict.fromkeys(("windows", "num_above", "num_below"), 0),
        }
        for rank in range(2)
        if workers is not None
    ]
    host = {"pass_id": "p", "rank": 0, "start_ns": 0, "duration_ns": 1, "samples": 1}
    means = dict.fromkeys(("mean", "low", "median", "high"), busy_cores)
    hosts = [{**host, "measure": "busy", **means}] if busy_cores is not None else []
    at = {**LAUNCH, "rank": 0, "process": "worker", "step": 0, "steps": 1, "phase": "outside"}
    line = {**at, "file": "train.py", "line": 3, "function": "load"}
    samples = [
        {**line, "leaf": "PIL/Image.py decode", "samples": round(100 * busy)},
        {**line, "leaf": "multiprocessing/queues.py get", "samples": 100 - round(100 * busy)},
    ] if not math.isnan(busy) else []  # fmt: skip
    tables = {
        RANK_MACHINE.name: RANK_MACHINE.frame(machine),
        HOST_SAMPLES.name: HOST_SAMPLES.frame(hosts),
        LINE_SAMPLES.name: LINE_SAMPLES.frame(samples),
    }
    run: Any = None
    return input_evidence(OneLaunch(run, tables), {"np": 2})


def test_without_workers_they_are_proposed_by_the_idle_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = found(monkeypatch, workers=0)

    assert seen.sentence == (
        "No worker process loads batches for the ranks. 6.0 of 8 cores are idle."
    )
    assert seen.advice.fix == "load batches in workers: DataLoader(num_workers=3)"


def test_busy_workers_and_idle_cores_ask_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = found(monkeypatch, workers=2, busy=1.0, busy_cores=4.0)

    assert seen.sentence == (
        "The 2 workers of a rank are busy for 100 % of the time. 4.0 of 8 cores are idle."
    )
    assert seen.advice.fix == "set num_workers=4"


@pytest.mark.parametrize("workers", [0, 2])
def test_without_idle_cores_more_workers_do_not_help(
    monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    seen = found(monkeypatch, workers=workers, busy=0.95, busy_cores=7.0)

    assert "no core is idle" in seen.advice.fix
    assert "num_workers" not in seen.advice.text
    assert "only where loading waits" in seen.advice.text


def test_idle_workers_are_not_what_the_ranks_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = found(monkeypatch, workers=4, busy=0.3)

    assert "busy for 30 % of the time" in seen.sentence
    assert "pin_memory" in seen.advice.fix


def test_between_busy_and_idle_nothing_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = found(monkeypatch, workers=1, busy=0.65)

    assert seen.sentence.startswith("The worker of a rank is busy for 65 %")
    assert seen.advice.text == ""


def test_cores_of_several_hosts_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = found(monkeypatch, workers=2, busy=1.0, num_hosts=2)

    assert "cores" not in seen.sentence
    assert seen.advice.text == ""


@pytest.mark.parametrize("workers", [None, 3])
def test_without_samples_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, workers: int | None
) -> None:
    assert found(monkeypatch, workers=workers) == InputEvidence("", Advice())
