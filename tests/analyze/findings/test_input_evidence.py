"""Where input is lost: too few workers, their work, or what lies behind them."""

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from hvdprof.analyze.findings import input_facts
from hvdprof.analyze.findings.advice import Advice, advice
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.input_evidence import InputEvidence, input_evidence
from hvdprof.analyze.pipeline import analyze_run
from hvdprof.model.tables.line_tables import LINE_SAMPLES
from hvdprof.model.tables.sample_tables import HOST_SAMPLES, RANK_MACHINE
from tests.analyze.causes.test_line_causes import PLANTED, planted_in, slow_rank
from tests.builders.sampled_lines import with_samples

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
    stages: Mapping[str, float] = MappingProxyType({}),
    main: Mapping[str, int] = MappingProxyType({}),
    busy_cores: float | None = 2.0,
    num_hosts: int = 1,
    ranks: tuple[int, ...] = (),
    of_rank_1: Mapping[str, float] = MappingProxyType({}),
    **measures: float,
) -> InputEvidence:
    """Two ranks on a host of 8 cores, ``busy_cores`` of them busy; ``busy`` of their workers.

    ``stages`` are shares of the busy samples of workers, ``main`` samples of the data phase.
    """
    setting = SimpleNamespace(num_hosts=num_hosts, num_cores=8)
    monkeypatch.setattr(input_facts, "cell_setting", lambda run, cell: setting)
    known = measures if workers is None else {"workers": float(workers), **measures}
    machine = [
        {
            **dict.fromkeys(RANK_MACHINE.column_names, math.nan),
            **LAUNCH,
            "rank": rank,
            "measure": measure,
            "mean": mean,
            **dict.fromkeys(("windows", "num_above", "num_below"), 0),
        }
        for rank in range(2)
        for measure, mean in (known | (of_rank_1 if rank else {})).items()
    ]
    host = {"pass_id": "p", "rank": 0, "start_ns": 0, "duration_ns": 1, "samples": 1}
    means = dict.fromkeys(("mean", "low", "median", "high"), busy_cores)
    hosts = [{**host, "measure": "busy", **means}] if busy_cores is not None else []
    at = {**LAUNCH, "rank": 0, "step": 0, "steps": 1}
    at |= {"file": "train.py", "line": 3, "function": "load"}
    worker = at | {"process": "worker", "phase": "outside"}
    samples: list[dict[str, object]] = []
    if not math.isnan(busy):
        idle = 100 - round(100 * busy)
        samples = [
            worker | {"leaf": "PIL/Image.py decode", "stage": stage, "samples": round(100 * share)}
            for stage, share in (stages or {"": busy}).items()
        ]
        get = {"leaf": "multiprocessing/queues.py get", "stage": "wait" if stages else ""}
        samples.append(worker | get | {"samples": idle})
    in_data = at | {"process": "main", "phase": "data", "leaf": ""}
    samples += [in_data | {"stage": stage, "samples": n} for stage, n in main.items()]
    tables = {
        RANK_MACHINE.name: RANK_MACHINE.frame(machine),
        HOST_SAMPLES.name: HOST_SAMPLES.frame(hosts),
        LINE_SAMPLES.name: LINE_SAMPLES.frame(samples),
    }
    run: Any = None
    return input_evidence(OneLaunch(run, tables), {"np": 2}, ranks)


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
    full = found(monkeypatch, workers=workers, busy=0.95, busy_cores=8.0)
    assert full.sentence.endswith(" None of 8 cores is idle.")


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


def test_workers_are_as_many_as_make_a_batch_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of 100 ms per step, 60 are waits; two workers take 100 ms of work each for two batches.
    seen = found(
        monkeypatch,
        workers=9,
        busy=1.0,
        stages={"fetch": 0.9, "collate": 0.1},
        busy_cores=1.0,
        ranks=(0,),
        num_workers=2.0,
        batches=10.0,
        batch_wait=0.6,
        queue_empty=0.97,
        batches_ready=0.05,
        prefetch_factor=2.0,
        workers_awake=1.9,
    )

    assert seen.sentence == (
        "The 2 workers of rank 0 are busy for 100 % of the time, 200 ms per batch. Of that, "
        "fetching samples takes 90 %, collating 10 %. The next batch was not ready at 97 % of the "
        "fetches. In the mean, 0.1 of at most 4 were. 7.0 of 8 cores are idle."
    )
    assert seen.advice.fix == "set num_workers=5"


def test_fewer_idle_cores_than_workers_are_needed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"num_workers": 2.0, "batches": 10.0, "batch_wait": 0.8}
    seen = found(monkeypatch, workers=2, busy=1.0, busy_cores=4.0, **known)

    assert seen.advice.fix == "set num_workers=4"
    assert seen.advice.text.endswith("10 would be needed, and no more cores are idle.")


def test_workers_that_wait_for_storage_need_no_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = found(
        monkeypatch,
        workers=2,
        busy=1.0,
        busy_cores=8.0,
        num_workers=2.0,
        batches=10.0,
        batch_wait=0.5,
        workers_awake=0.2,
    )

    assert "Loading uses a core, or waits for one, for 10 % of its time" in seen.sentence
    assert seen.advice.fix == "set num_workers=4"
    assert "need no core each" in seen.advice.text
    assert seen.advice.text.endswith("and not where it is for a lock.")
    assert seen.is_waiting
    busy = found(monkeypatch, workers=2, busy=1.0, busy_cores=4.0, workers_awake=1.8)
    assert "lock" not in busy.advice.text
    assert not busy.is_waiting


def test_a_costly_collate_is_what_to_change_without_idle_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stages = {"collate": 0.9, "fetch": 0.1}
    seen = found(monkeypatch, workers=2, busy=1.0, stages=stages, busy_cores=8.0)

    assert "collating takes 90 %, fetching samples 10 %" in seen.sentence
    assert seen.advice.fix.startswith("make collating cheaper")


def test_without_workers_the_stages_are_those_of_the_main_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"num_workers": 0.0, "batches": 10.0, "batch_wait": 0.6, "main_thread": 0.9}
    main = {"fetch": 30, "collate": 10}
    seen = found(monkeypatch, workers=0, main=main, busy_cores=2.0, **known)

    assert "Of its data phase, fetching samples takes 75 %, collating 25 %." in seen.sentence
    assert seen.advice.fix == "load batches in workers: DataLoader(num_workers=2)"


def test_bursts_ask_for_batches_ahead_that_bridge_the_longest_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"num_workers": 2.0, "prefetch_factor": 1.0, "batches": 10.0, "queue_empty": 0.3}
    # Without waits a step takes 70 ms: 420 ms are six batches, three of each worker.
    seen = found(monkeypatch, workers=2, busy=0.6, batch_wait=0.3, longest_batch_wait=0.42, **known)

    assert seen.advice.fix == "set prefetch_factor=4"


def test_a_wait_for_the_first_batch_of_epochs_asks_for_no_more_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As recorded: workers start anew every 21 steps, and build their index of the data set.
    known = {"num_workers": 1.0, "batches": 35.0, "batch_wait": 0.65, "first_batch_wait": 0.62}
    queue = {"prefetch_factor": 2.0, "queue_empty": 0.0, "batches_ready": 1.9}
    seen = found(monkeypatch, workers=1, busy=0.45, busy_cores=8.0, **known, **queue)

    assert seen.advice.fix.startswith("set persistent_workers=True")
    assert "Of the wait for batches, 95 % is for the first of an epoch." in seen.sentence
    assert "not ready" not in seen.sentence


def test_workers_that_end_too_soon_to_be_seen_are_not_said_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"num_workers": 2.0, "batches": 10.0, "batch_wait": 0.5, "workers_awake": 0.0}
    seen = found(monkeypatch, workers=2, busy=1.0, busy_cores=8.0, **known)

    assert "Loading uses a core" not in seen.sentence
    assert not seen.is_waiting
    assert "num_workers" not in seen.advice.text


@pytest.mark.parametrize(
    ("main", "measures", "fix"),
    [
        ({}, {"first_batch_wait": 0.2}, "persistent_workers=True"),
        ({}, {"batches_unpinned": 3.0, "queue_empty": 0.9}, "cheaper to pin"),
        ({"receive": 30, "wait": 20}, {}, "to receive"),
    ],
)
def test_idle_workers_leave_what_lies_behind_them(
    monkeypatch: pytest.MonkeyPatch, main: dict[str, int], measures: dict[str, float], fix: str
) -> None:
    known = {"num_workers": 2.0, "batches": 10.0, "batch_wait": 0.3}
    seen = found(monkeypatch, workers=2, busy=0.6, main=main, **known, **measures)

    assert fix in seen.advice.fix
    assert "num_workers" not in seen.advice.fix


def test_few_samples_are_said_to_be_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_facts, "LEAST_SAMPLES", 200)
    seen = found(monkeypatch, workers=2, busy=1.0, num_workers=2.0, queue_empty=0.9)

    assert seen.sentence.startswith("What the workers do is unknown: 100 samples of them.")
    assert seen.advice.text == ""


def test_workers_that_cannot_keep_up_are_too_few_before_they_are_always_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A core is missed now and then between two batches.
    known = {"num_workers": 1.0, "batches": 17.0, "batch_wait": 0.4, "queue_empty": 0.5}
    seen = found(monkeypatch, workers=1, busy=0.77, main={"receive": 40, "wait": 20}, **known)

    assert seen.advice.fix == "set num_workers=2"


def test_loading_in_the_rank_may_lack_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"num_workers": 0.0, "batches": 17.0, "batch_wait": 0.1, "main_thread": 0.3}
    lacking = found(monkeypatch, workers=0, busy_cores=8.0, core_wait=0.6, **known)
    present = found(monkeypatch, workers=0, busy_cores=8.0, core_wait=0.2, **known)

    assert lacking.sentence.endswith("no core for 60 % of the time in which they could run.")
    assert "could run" not in present.sentence
    # It may be in another phase that the rank lacked one.
    assert not lacking.is_ready


def test_batches_that_are_ready_are_not_what_a_rank_without_a_core_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"num_workers": 2.0, "batches": 10.0, "batch_wait": 0.1, "first_batch_wait": 0.0}

    def seen(**more: float) -> InputEvidence:
        return found(monkeypatch, workers=2, busy=0.3, **known, **more)

    lacking = seen(core_wait=0.5, empty_queue_wait=0.02)
    assert lacking.is_ready
    assert "To take one over they had no core for 50 % of the time." in lacking.sentence
    assert lacking.advice.fix.startswith("give the ranks cores of their own")
    # Rare waits for a batch may be most of the time.
    assert not seen(core_wait=0.5, empty_queue_wait=0.09, queue_empty=0.05).is_ready
    taken_over = seen(core_wait=0.05, empty_queue_wait=0.02)
    assert (taken_over.is_ready, taken_over.has_batches) == (False, True)


def test_the_rank_without_batches_is_not_hidden_by_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"num_workers": 2.0, "batch_wait": 0.2, "first_batch_wait": 0.0, "core_wait": 0.7}
    slow = {"batch_wait": 0.3, "empty_queue_wait": 0.2, "batches": 12.0}

    def seen(of_rank_1: dict[str, float]) -> InputEvidence:
        return found(
            monkeypatch,
            workers=2,
            busy=0.3,
            empty_queue_wait=0.0,
            of_rank_1=of_rank_1,
            **known,
        )

    assert seen({}).is_ready
    assert not seen(slow).is_ready


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("seen", "fix"),
    [
        ({"has_none": True}, "look at transforms.py:41"),
        ({"is_waiting": True}, "look at transforms.py:41"),
        ({}, "add workers"),
    ],
)
def test_a_straggler_whose_workers_are_not_too_few_gets_its_line_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: dict[str, bool], fix: str
) -> None:
    stages = InputEvidence("Seen.", advice("add workers"), **seen)
    rules = "hvdprof.analyze.findings.run_rules.named_cause_rules"
    monkeypatch.setattr(f"{rules}.input_evidence", lambda *_: stages)
    run = with_samples(slow_rank(tmp_path, 30.0), PLANTED, planted_in("data", 30.0))
    found = analyze_run(run).findings
    (straggler,) = found[found["id"] == "persistent-straggler"].to_dict("records")
    assert straggler["fix"] == fix
    assert "Add workers." in straggler["action"]
    assert "Look at transforms.py:41" in straggler["action"]
