"""Advice on GPUs and NCCL needs evidence: who shares a GPU, and what reduces."""

from dataclasses import replace

import pytest

from hvdprof.analyze.pipeline import findings
from tests.analyze.findings.test_run_findings import (
    evidence,
    ranks,
    scaling,
    segments,
    straggler,
    table,
    term,
    under_ddp,
)
from tests.builders.finding_style import style_faults
from tests.builders.finished_analysis import cell, manifest, pass_record, segment
from tests.builders.nccl_log import job, recorded

SHARED = {"device": "cuda:0", "gpu": "a", "num_gpus": 1}
MISPLACED = SHARED | {"num_gpus": 2}
SET_DEVICE = "Call torch.cuda.set_device(hvd.local_rank())"


def only(*tables, **values):
    (row,) = findings(evidence(tables, **values)).to_dict("records")
    assert style_faults(row) == []
    return row


@pytest.mark.parametrize(("backend", "is_named"), [("nccl", True), ("gloo", False), ("", False)])
def test_nccl_takes_sms_only_where_it_reduces(backend, is_named):
    own = ranks(0, 1, device="cuda:0", backend=backend)
    row = only(term("compute-inflation", 0.3), ranks=own)

    assert row["fix"].startswith("run `nvidia-smi")
    assert ("NCCL" in row["action"]) == is_named


@pytest.mark.parametrize("name", ["compute-inflation", "exposed-transfer"])
def test_ranks_on_one_of_the_gpus_that_they_see_get_one_each(name):
    row = only(term(name, 0.3), ranks=ranks(0, 1, **MISPLACED, backend="gloo"))

    assert "2 ranks share 1 GPU of the 2 that each sees." in row["evidence"]
    assert row["action"].startswith(SET_DEVICE)
    # It refuses two ranks on one GPU.
    assert "--gpu --force" not in row["action"]
    assert "between GPUs" not in row["title"]


def test_ranks_of_ddp_have_the_local_rank_of_their_launcher():
    row = only(
        *under_ddp("compute-inflation", 0.3),
        segments=segments(engine="ddp"),
        ranks=ranks(0, 1, **MISPLACED),
    )

    assert row["fix"].startswith('call torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))')


@pytest.mark.parametrize("backend", ["gloo", "mpi"])
@pytest.mark.parametrize("hosts", [("node1", "node1"), ("node1", "node2")])
def test_another_library_for_gpus_is_named_and_replaced(backend, hosts):
    own = ranks(0, 1, hosts=hosts, device="cuda:0", backend=backend)
    row = only(term("exposed-transfer", 0.4), ranks=own)

    assert ", not NCCL, carries what the GPUs send." in row["evidence"]
    assert row["command"] == "hvdprof install-horovod --gpu --force"
    assert "NCCL_DEBUG" not in row["action"]


def test_ddp_over_gloo_on_gpus_gets_the_backend_of_gpus():
    own = ranks(0, 1, device="cuda:0", backend="gloo")
    row = only(*under_ddp("exposed-transfer", 0.4), segments=segments(engine="ddp"), ranks=own)

    assert row["fix"] == 'call init_process_group("nccl")'


def test_an_unknown_library_gets_no_advice_on_nccl():
    row = only(term("exposed-transfer", 0.4), ranks=ranks(0, 1, device="cuda:0"))

    assert "NCCL" not in row["evidence"] + row["action"]


def test_the_timeline_shows_what_reduces_where_the_ranks_do_not_say_it():
    timelines = ("timelines", table("timelines", {"pass_id": "p", "backends": "MPI"}))
    own = ranks(0, 1, device="cuda:0")
    row = only(timelines, term("exposed-transfer", 0.4), ranks=own)

    assert "MPI, not NCCL" in row["evidence"]


def test_more_ranks_than_gpus_are_counted():
    crowded = ("scaling", scaling(cell(oversubscribed=True)))
    row = only(crowded, ranks=ranks(0, 1, **SHARED))

    assert row["title"] == "Ranks that share a GPU"
    assert row["evidence"].startswith("np=2: 2 ranks share 1 GPU.")
    assert row["action"] == "Run at most one rank per GPU."


def test_more_ranks_than_cores_share_no_gpu():
    assert only(("scaling", scaling(cell(oversubscribed=True))))["title"] == (
        "More ranks than cores or GPUs"
    )


def test_clocks_of_one_gpu_are_not_compared_between_its_ranks():
    given = straggler("persistent", phase="forward")
    row = only(given, ranks=ranks(0, 1, **SHARED))

    assert "nvidia-smi" not in row["action"]
    assert row["fix"].startswith("compare the work per sample of rank 1")
    assert "2 ranks share 1 GPU, which delays ranks, too." in row["evidence"]


def test_a_slow_host_under_horovod_on_gpus_may_use_an_interface_of_nccl():
    row = {"host": "h3", "method": "broadcast", "num_pairs": 2, "bandwidth_share_high": 0.3}
    hosts = ("net_hosts", table("net_hosts", row))
    on_gpus = replace(manifest(), settings={"device": "cuda"})

    assert "NCCL_SOCKET_IFNAME" in only(hosts, manifest=on_gpus)["action"]
    assert "NCCL_SOCKET_IFNAME" not in only(hosts)["action"]


@pytest.mark.parametrize(
    ("hosts", "size", "is_found"),
    [(("node1", "node1"), 2, False), (("node1", "node2"), 2, True), (("node1", "node1"), 4, True)],
    ids=["one host", "two hosts", "ranks without a recording"],
)
def test_a_run_on_one_host_may_use_an_interface_that_stays_there(tmp_path, hosts, size, is_found):
    # The log of one rank of four: where the others are is known to the run alone.
    lines = job(extra=["NET/Socket : Using [0]lo:127.0.0.1<0>"])
    log = recorded(tmp_path, [line for line in lines if line.startswith("oak0:7000")])
    record = pass_record("p", [segment("s")], mode="throughput", size=size)
    given = evidence(
        manifest=manifest(passes=[record]), ranks=ranks(0, 1, hosts=hosts), nccl=(log,)
    )

    assert ("nccl-wrong-interface" in list(findings(given)["id"])) == is_found
