from dataclasses import replace

from hvdprof.report.terminal_page import shape_page
from tests.builders.finished_analysis import failed, full_analysis


def test_a_failure_says_where_its_rank_ran():
    analysis = replace(full_analysis(), failed=(failed(host="node2"), failed(rank=None)))

    first, second = shape_page(analysis).failed
    assert first.reason.endswith("; rank 1 ran on node2")
    assert second.reason == "rank 1 was killed by SIGKILL"
