"""The table of one run and its sources says what each source says, and what it cannot say."""

import math

from benchmarks.sources_of_one_run import Said, rows


def test_costs_are_compared_with_the_recorder() -> None:
    lines = rows(
        "fsdp",
        "backward:rank=1:ms=6",
        [
            Said("recorder", 1, "backward", 6e6),
            Said("torch.profiler", 1, "backward", 5.7e6),
            Said("Flight Recorder", None, "", math.nan),
        ],
    )
    assert lines == [
        "| FSDP2 | rank 1, backward, 6 ms | recorder | 1 | backward | 6.0 ms |  |",
        "|  |  | torch.profiler | 1 | backward | 5.7 ms | -5.0% |",
        "|  |  | Flight Recorder | none |  |  |  |",
    ]


def test_without_a_cost_of_the_recorder_nothing_is_compared() -> None:
    said = [Said("recorder", None, "", math.nan), Said("torch.profiler", 1, "data", 2e6)]
    assert rows("ddp", "", said)[1] == "|  |  | torch.profiler | 1 | data | 2.0 ms |  |"
