from pathlib import Path

import pytest

from hvdprof.analyze.files.nccl_facts import nccl_facts
from hvdprof.ingest.nccl.reader import read_nccl_logs
from tests.builders.nccl_log import init_line, job, of_rank, recorded
from tests.builders.places import CORPUS, needs_corpus


def communicators_of(recording) -> tuple[object, str]:
    (fact,) = (one for one in nccl_facts(recording) if one.name == "num_communicators")
    return fact.value, fact.text


def test_communicators_of_one_size_count_one_by_one(tmp_path: Path) -> None:
    # Two pairs at once: without commId, the log does not show which ranks belong together.
    pairs = [
        of_rank(rank, init_line(rank % 2, 2, "COMPLETE", comm=comm))
        for comm in (2, 3)
        for rank in (0, 2, 1, 3)
    ]
    assert communicators_of(recorded(tmp_path, [*job(), *pairs])) == (5, "5 (4 of 2, 1 of 4 ranks)")


def test_a_log_without_communicators_counts_none(tmp_path: Path) -> None:
    names = {fact.name for fact in nccl_facts(recorded(tmp_path, ["NCCL version 2.20.5+cuda12.4"]))}
    assert "num_communicators" not in names
    assert "nccl_versions" in names


@pytest.mark.heavy
@needs_corpus
def test_the_communicators_of_a_large_job() -> None:
    path = CORPUS / "nccl_logs" / "bigscience_meg_ds_3d_gpt2_perf_n16.out"
    assert communicators_of(read_nccl_logs([path])) == (
        64 + 65 + 32 + 4 + 2,
        "167 (64 of 1, 65 of 2, 32 of 4, 4 of 16, 2 of 64 ranks)",
    )
