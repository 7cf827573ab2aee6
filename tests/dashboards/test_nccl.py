import pytest

from hvdprof.dashboards.pages import nccl
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.served_dashboard import (
    check_in_browser,
    measured_run,
    nccl_file,
    page_text,
    shown_text,
    standalone_timeline,
)

NOTHING = "No NCCL log and no nccl-tests output"


@pytest.mark.heavy
def test_a_log_shows_communicators_ring_tree_and_transports(tmp_path):
    text = page_text(nccl, nccl_file(tmp_path))
    for heading in (
        "Communicators",
        "Transports between ranks",
        "Ring of channel 0",
        "Tree of channel 0",
        "Connections",
    ):
        assert f'"{heading}"' in text
    assert "network with GPUDirect RDMA" in text
    assert "direct between GPUs (P2P)" in text


@pytest.mark.heavy
def test_the_answer_stands_first(tmp_path):
    log = nccl_file(tmp_path)
    runs = RunStore([log])
    first, *_ = nccl.layout(runs, View(nccl.PATH, {"run": log.name})).children
    assert "No problem found. 1 communicator, the largest of 8 ranks on 4 hosts." in shown_text(
        first
    )


def test_members_of_a_ring_without_a_line_in_the_log_are_named_missing():
    assert nccl._members({"num_ranks_seen": 20, "num_ranks": 64}) == "20 of 64 ranks in the log"
    assert nccl._members({"num_ranks_seen": 8, "num_ranks": 8}) == "8 ranks"


@pytest.mark.slow
def test_another_channel_can_be_asked_for_and_a_wrong_one_is_ignored(tmp_path):
    log = nccl_file(tmp_path)
    assert "Tree of channel 1" in page_text(nccl, log, channel=1)
    assert "Tree of channel 0" in page_text(nccl, log, channel=77, comm=55)


@pytest.mark.heavy
@needs_corpus
@pytest.mark.parametrize(
    ("path", "heading"),
    [
        ("nccl_logs/aws_efa_eks_p4d_16rank_mpijob.log", "Ring of channel 0"),
        ("nccl_tests/a3mega_h100_16.txt", "Bus bandwidth by nccl-tests"),
    ],
)
def test_other_peoples_logs(path, heading):
    assert heading in page_text(nccl, CORPUS / path)


@pytest.mark.slow
@pytest.mark.parametrize("make", [measured_run, standalone_timeline])
def test_without_data_it_says_how_to_get_them(tmp_path, make):
    folder = tmp_path / "run" if make is measured_run else tmp_path
    text = page_text(nccl, make(folder))
    assert NOTHING in text
    assert "NCCL_DEBUG=INFO" in text


@pytest.mark.browser
def test_in_a_browser(tmp_path):
    expected = {"nccl": "Transports between ranks", "empty": NOTHING, "timeline": NOTHING}
    check_in_browser(nccl, tmp_path, expected)
