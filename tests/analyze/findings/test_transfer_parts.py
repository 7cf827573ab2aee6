"""Exposed communication on GPUs: what negotiates, and what carries the data."""

from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.analyze.pipeline import findings
from hvdprof.api import load_run
from hvdprof.rundir.layout import RunPaths
from tests.analyze.findings.test_run_findings import (
    NAMES,
    evidence,
    ranks,
    scaling,
    segments,
    table,
    term,
)
from tests.builders.finding_style import style_faults
from tests.builders.finished_analysis import cell, manifest, pass_record, segment
from tests.builders.nccl_log import job, recorded
from tests.builders.run_directory import PassSpec, write_run

ONE_HOST = ("node1", "node1")
TWO_HOSTS = ("node1", "node2")


def exposed(hosts, device, *, executing=float("nan"), share=None, **values):
    """The finding on exposed transfer; ``share`` is what transfers reach of the network."""
    tables = [term("exposed-transfer", 0.4, executing_share=executing)]
    if share is not None:
        use = {"np": 2, "num_hosts": 2, "share": share, "share_low": share - 0.05}
        use |= {"share_high": share + 0.05, "busbw_gb_per_s": 0.02, "allowed_gb_per_s": 0.025}
        tables.append(("net_use", table("net_use", use)))
    own = ranks(0, 1, hosts=hosts, device=device, backend="nccl" if device != "cpu" else "")
    given = evidence(tables, ranks=own, **values)
    (row,) = findings(given).to_dict("records")
    assert style_faults(row) == []
    return row


@pytest.mark.heavy
def test_below_the_network_the_action_is_nccl_on_gpus_and_cores_on_cpus():
    on_gpus = exposed(TWO_HOSTS, "cuda:0", executing=0.9, share=0.3)
    on_cpus = exposed(TWO_HOSTS, "cpu", executing=0.9, share=0.3)

    assert on_gpus["id"] == on_cpus["id"] == "below-network"
    assert on_gpus["action"].startswith("Run with NCCL_DEBUG=INFO")
    assert "--controller" not in on_gpus["action"]
    assert "OMP_NUM_THREADS" not in on_gpus["action"]
    assert "`--controller mpi` or `--controller gloo`" in on_cpus["action"]


@pytest.mark.parametrize("hosts", [ONE_HOST, TWO_HOSTS])
def test_negotiation_of_gpus_is_shortened_and_not_the_transfer(hosts):
    row = exposed(hosts, "cuda:0", executing=0.2, share=0.3)

    assert row["title"] == "Exposed negotiation between GPUs"
    assert row["action"].startswith("Set HOROVOD_CYCLE_TIME=0.1")
    assert "`--controller mpi` and `--controller gloo`" in row["action"]
    assert "fp16" not in row["action"]
    assert "HOROVOD_CACHE_CAPACITY" not in row["action"]


@pytest.mark.parametrize("executing", [float("nan"), 0.6])
def test_transfer_of_gpus_is_what_nccl_does(executing):
    row = exposed(ONE_HOST, "cuda:0", executing=executing)

    assert row["title"] == "Exposed communication between GPUs of one host"
    assert "NCCL_DEBUG=INFO" in row["action"]
    assert "--controller" not in row["action"]
    assert "CYCLE_TIME" not in row["action"]


@pytest.mark.parametrize("hosts", [ONE_HOST, TWO_HOSTS])
@pytest.mark.parametrize("share", [None, 0.3])
def test_where_the_run_has_the_log_of_nccl_its_page_is_named(tmp_path, hosts, share):
    log = recorded(tmp_path, job())
    row = exposed(hosts, "cuda:0", share=share, nccl=(log,), folder=Path("/runs/one"))

    assert "the page NCCL of `hvdprof dashboard /runs/one`" in row["action"]
    assert "NCCL_DEBUG" not in row["action"]


def test_the_log_of_a_run_of_hvdprof_is_known_to_be_its_own(tmp_path):
    folder = write_run(tmp_path / "run", [PassSpec()])
    (of_pass,) = (folder / "passes").iterdir()
    logs = RunPaths(folder).of_pass(of_pass.name).nccl_folder
    logs.mkdir()
    recorded(logs, job())

    (log,) = load_run(folder).nccl
    assert log.of_hvdprof


def test_on_cpus_the_controller_carries_the_data_as_well():
    row = exposed(ONE_HOST, "cpu", executing=0.6, controller="gloo")

    assert row["id"] == "gloo-transfer"
    assert "--controller mpi" in row["action"]


@pytest.mark.parametrize(
    ("kind", "hosts", "executing", "share"),
    [
        ("gloo-transfer", ONE_HOST, 0.6, None),
        ("exposed-transfer", ONE_HOST, 0.2, None),
        ("below-network", TWO_HOSTS, 0.9, 0.3),
    ],
)
def test_an_elastic_job_is_sent_to_no_other_controller(kind, hosts, executing, share):
    record = pass_record("p", [segment("s")], mode="throughput", controller="gloo", session=1)
    own = replace(manifest(), passes=[record])
    row = exposed(hosts, "cpu", executing=executing, share=share, manifest=own)

    assert row["id"] == kind
    assert "--controller" not in row["action"]
    assert "backward_passes_per_step" in row["action"]


def test_what_mostly_negotiates_is_no_transfer_on_cpus_either():
    spare = replace(manifest(), hosts=[{"hostname": "node1", "num_cores": 16}])
    record = pass_record("p", [segment("s")], mode="throughput", controller="gloo")

    row = exposed(ONE_HOST, "cpu", executing=0.2, manifest=replace(spare, passes=[record]))

    assert row["title"] == "Exposed negotiation on one host"
    assert "loopback" not in row["evidence"]
    assert row["action"].startswith("Set HOROVOD_CYCLE_TIME=0.1")


def test_between_hosts_of_cpus_negotiation_is_not_the_network():
    row = exposed(TWO_HOSTS, "cpu", executing=0.2, share=0.9)

    assert row["title"] == "Exposed negotiation between 2 hosts"
    assert "faster network" not in row["action"].replace("nor a faster network helps", "")


def test_ranks_that_compute_on_every_core_give_horovod_one_before_shorter_cycles():
    own = term("exposed-transfer", 0.4, executing_share=0.2)
    (row,) = findings(evidence([own], ranks=ranks(0, 1, num_threads=2))).to_dict("records")

    assert row["title"] == "Exposed negotiation on one host"
    assert row["action"].startswith("Set a smaller OMP_NUM_THREADS or run fewer ranks")
    assert "CYCLE_TIME" not in row["action"]


def test_a_trace_pass_with_other_exposed_transfer_does_not_split_it():
    own = term("exposed-transfer", 0.4, traced_ns=1.75e6)
    (row,) = findings(evidence([own])).to_dict("records")

    assert "not split: the trace pass has 1.75 ms of exposed transfer per step" in row["evidence"]
    assert "no trace pass" not in row["evidence"]


def test_a_cycle_that_is_short_already_is_not_advised():
    row = exposed(ONE_HOST, "cuda:0", executing=0.2, environment={"HOROVOD_CYCLE_TIME": "0.1"})

    assert "CYCLE_TIME" not in row["action"]


@pytest.mark.parametrize(("capacity", "is_small"), [("", True), ("8192", False)])
def test_a_response_cache_that_is_too_small_for_the_gradients_is_named(capacity, is_small):
    environment = {"HOROVOD_CACHE_CAPACITY": capacity} if capacity else {}
    row = exposed(
        ONE_HOST,
        "cuda:0",
        executing=0.2,
        environment=environment,
        segments=segments(num_tensors=1500),
    )

    assert ("HOROVOD_CACHE_CAPACITY=3000" in row["action"]) == is_small


@pytest.mark.parametrize(
    ("user_ms", "steps", "engine", "is_named"),
    [
        (6.0, 40, "horovod", True),
        (6.0, 40, "ddp", True),
        # Less than half of the transfer, and a barrier every few steps.
        (1.5, 40, "horovod", False),
        (6.0, 4, "horovod", False),
        # Of FSDP2 the waits for parameters are the transfer.
        (6.0, 40, "fsdp", False),
    ],
)
def test_collectives_that_the_script_calls_itself_are_no_gradients(
    user_ms, steps, engine, is_named
):
    rows = [
        {**NAMES, "rank": rank, "step": step, "number": number, "kind": kind, "num_ranks": 2}
        | {"start_ns": 0, "clock_error_ns": 0}
        # The other rank waits for the last one to arrive, which is no transfer.
        | {"dur_ns": int(1e6 * (own + (30 if rank else 0)))}
        for step in range(steps)
        for number, (kind, own) in enumerate([("user", user_ms), ("grad_reduce", 2.0)])
        for rank in (0, 1)
    ]
    own = segments(engine=engine)
    causes = term("exposed-transfer", 0.4, engine=engine)
    tables = [
        causes,
        ("waits", table("waits", *rows)),
        ("scaling", scaling(cell(num_steps=50, engine=engine))),
    ]
    (row,) = findings(evidence(tables, segments=own)).to_dict("records")

    assert (row["title"] == "Exposed collectives of the script") == is_named
    assert ("75 % of it is in collectives that the script calls itself" in row["evidence"]) == (
        is_named
    )
    assert style_faults(row) == []
