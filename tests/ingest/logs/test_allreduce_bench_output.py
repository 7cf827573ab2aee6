from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from tests.builders.places import CORPUS, needs_corpus

TABLE = """\
The average bandwidth of all_reduce over 16 ranks (5 warmups / 20 trials):

| payload |    busbw   |    algbw   |
| ------: | ---------: | ---------: |
|   32KiB |   1.50GBps |   0.80GBps |
|    1MiB |  39.93GBps |  21.30GBps |
|    2GiB | 469.17GBps | 250.22GB
"""


@pytest.mark.heavy
def test_payloads_and_bandwidths_are_those_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text("[1,0]<stdout>:" + "\n[1,0]<stdout>:".join((TABLE + TABLE).splitlines()))
    run = load_run(path)
    rows = run.table("allreduce_bench")
    assert rows["size_bytes"].tolist() == [32 * 2**10, 2**20] * 2
    assert rows["busbw_gb_s"].tolist() == [1.5, 39.93] * 2
    assert rows["algbw_gb_s"].tolist() == [0.8, 21.3] * 2
    assert rows["np"].tolist() == [16] * 4
    assert rows["run"].tolist() == [0, 0, 1, 1]
    assert rows["line"].tolist()[:2] == [5, 6]
    (page,) = analyze_files(run).files
    assert page.kind == "output of all_reduce_bench.py"
    assert {fact.name: fact.value for fact in page.facts} == {
        "num_payloads": 4,
        "each_table": "1: 16 ranks, peak 39.9 GB/s at 1.05 MB, line 6\n"
        "2: 16 ranks, peak 39.9 GB/s at 1.05 MB, line 13",
    }


def test_without_its_column_names_a_row_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text("| 32KiB | 1.50GBps | 0.80GBps |\n" + TABLE)
    assert load_run(path).table("allreduce_bench")["line"].tolist() == [6, 7]


@needs_corpus
def test_the_table_of_the_corpus() -> None:
    rows = load_run(CORPUS / "nccl_tests" / "stas_all_reduce_bench_py.txt").table("allreduce_bench")
    assert rows["size_bytes"].tolist() == [2**power for power in range(15, 35)]
    assert rows["busbw_gb_s"].iloc[-1] == 482.26
    # The ratio of both is 2 (n - 1) / n: 8 ranks were started, which the file does not print.
    assert (rows["busbw_gb_s"] / rows["algbw_gb_s"]).median() == pytest.approx(1.75, abs=1e-3)
    assert rows["np"].isna().all()
