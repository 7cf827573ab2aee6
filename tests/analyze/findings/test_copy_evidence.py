"""What is said of copies of batches to the GPU, and what the numbers bear as advice."""

import math
from typing import Any

import pandas as pd
import pytest

from hvdprof.analyze.findings.copy_evidence import CopyEvidence, copy_evidence
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.model.tables.sample_tables import RANK_MACHINE

MB, GB = 1e6, 1e9


class OneLaunch(Evidence):
    """Evidence whose launch speaks for its cell."""

    def rows_of(self, rows: pd.DataFrame, cell: Any) -> pd.DataFrame:
        return rows.astype({"pass_id": str, "segment": str})


def found(*ranks: dict[str, float], of: tuple[int, ...] = ()) -> CopyEvidence:
    """Of ranks whose measures are given; 23.2 batches per second."""
    rows = [
        {
            **dict.fromkeys(RANK_MACHINE.column_names, math.nan),
            "pass_id": "p",
            "segment": "s",
            "rank": rank,
            "measure": measure,
            "mean": mean,
            **dict.fromkeys(("windows", "num_above", "num_below"), 0),
        }
        for rank, measures in enumerate(ranks)
        for measure, mean in ({"batches": 23.2} | measures).items()
    ]
    run: Any = None
    evidence = OneLaunch(run, {RANK_MACHINE.name: RANK_MACHINE.frame(rows)})
    return copy_evidence(evidence, {}, of)


def copied(share: float, size: float, pageable: float = 1.0) -> dict[str, float]:
    """A share of the time for batches of so many bytes."""
    rate = 23.2 * size
    return {"copy_gpu": share, "copied": rate, "copied_pageable": pageable * rate}


def test_pageable_memory_that_the_gpu_waits_for_is_to_be_pinned() -> None:
    seen = found(copied(0.25, 77 * MB), copied(0.25, 77 * MB))
    assert seen.sentence == (
        "From a batch of a rank (77.0 MB in pageable memory) to its forward pass the GPU takes "
        "10.8 ms, 7.15 GB/s if all of it is the copy."
    )
    assert seen.advice.fix.startswith("set pin_memory=True")
    assert "non_blocking=True" in seen.advice.fix
    assert seen.share == pytest.approx(0.25)


def test_the_ranks_that_are_asked_for_are_named() -> None:
    seen = found(copied(0.25, 77 * MB), copied(0.5, 77 * MB), of=(1,))
    assert "a batch of rank 1 (" in seen.sentence
    assert seen.share == pytest.approx(0.5)


def test_exposed_copies_of_pinned_memory_are_to_be_made_ahead() -> None:
    seen = found(copied(0.1, 77 * MB, pageable=0.01))
    assert "in pinned memory" in seen.sentence
    assert "stream of its own" in seen.advice.fix
    assert "pin_memory" not in seen.advice.text


def test_a_copy_that_nothing_waits_for_is_a_fact_without_advice() -> None:
    # On another stream: the rate would be none of a copy.
    seen = found(copied(0.001, 77 * MB))
    assert seen.sentence.endswith("to its forward pass the GPU takes 43.1 µs.")
    assert seen.advice.text == ""


def test_a_time_that_the_bytes_do_not_explain_is_no_advice() -> None:
    seen = found(copied(0.25, 1 * MB))
    assert seen.sentence.endswith("92.8 MB/s if all of it is the copy.")
    assert seen.advice.text == ""


@pytest.mark.parametrize("measures", [{}, copied(0.0, 77 * MB), copied(0.2, 0.0)])
def test_without_copies_nothing_is_said(measures: dict[str, float]) -> None:
    assert found(measures) == CopyEvidence()
