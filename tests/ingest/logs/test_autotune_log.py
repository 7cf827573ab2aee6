from pathlib import Path

import pandas as pd
import pytest

from hvdprof.analyze.files.log_facts import autotune_facts
from hvdprof.ingest.logs.autotune_log import Autotune
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.printed import read_part

HEADER = (
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
    "tensor_fusion_threshold,score\n"
)
OLD_HEADER = HEADER.replace("torus_allreduce,", "")


def test_the_stray_blank_and_the_last_row(tmp_path: Path) -> None:
    text = (
        HEADER + "0,0,0, 0,5,4,8.18\n0,1,0, 1,1.01174,4.67869,43.3\n0,1,0, 1,1.01174,4.67869,43.3\n"
    )
    tables, _ = read_part(Autotune, text, tmp_path)
    samples = tables["autotune"]
    assert list(samples["cycle_time_ns"]) == [5_000_000, 1_011_740, 1_011_740]
    assert list(samples["hierarchical_allgather"]) == [False, True, True]
    assert list(samples["cache_enabled"]) == [False, True, True]
    assert list(samples["final"]) == [False, False, True]


def test_older_logs_have_no_torus(tmp_path: Path) -> None:
    tables, _ = read_part(Autotune, OLD_HEADER + "0,0,1,5,4,404.709\n", tmp_path)
    (row,) = tables["autotune"].to_dict("records")
    assert pd.isna(row["torus_allreduce"])
    assert row["cache_enabled"]
    assert (row["score"], row["final"]) == (404.709, False)


@pytest.mark.parametrize("text", ["0,0,0, 0,5,4,8.18\n", HEADER + "0,0,0,5,4,8.18\n", HEADER])
def test_no_rows_without_their_header(tmp_path: Path, text: str) -> None:
    tables, _ = read_part(Autotune, text, tmp_path)
    assert len(tables["autotune"]) == 0


@needs_corpus
@pytest.mark.parametrize(
    ("name", "scores"),
    [
        ("huyutuo_autotune_best_params.md", [404.709, 750.401, 411.676, 993.593, 1001.59]),
        ("huyutuo_autotune_results.md", [652.286, 899.14]),
    ],
)
def test_pasted_winners(tmp_path: Path, name: str, scores: list[float]) -> None:
    tables, _ = read_part(Autotune, (CORPUS / "horovod_logs" / name).read_bytes(), tmp_path)
    assert list(tables["autotune"]["score"]) == scores


def test_results_of_several_jobs_are_never_mixed(tmp_path: Path) -> None:
    header = (
        "hierarchical_allreduce,hierarchical_allgather,cache_enabled,cycle_time_ms,"
        "tensor_fusion_threshold,score\n"
    )
    logs = f"{header}0,0,1, 1,64,100\n0,0,1, 2,64,200\n0,0,1, 2,64,200\n{header}0,0,1, 5,4,900\n"
    tables, _ = read_part(Autotune, logs, tmp_path)
    assert list(tables["autotune"]["run"]) == [0, 0, 0, 1]
    assert list(tables["autotune"]["final"]) == [False, False, True, False]
    page = f"{header}best of resnet:0,0,0,5,4,404.7\nbest of vgg:0,0,0,5,4,750.4\n"
    tables, _ = read_part(Autotune, page, tmp_path)
    assert list(tables["autotune"]["run"]) == [0, 1]
    facts = {fact.name: fact.value for fact in autotune_facts(tables["autotune"])}
    assert facts["num_samples"] == 2
    assert str(facts["each_tuning"]).startswith("1: 1 sample, best cycle time 5.00 ms")
