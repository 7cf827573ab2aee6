from pathlib import Path

import pandas as pd
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


def trials_of(num_ranks: int, times: list[float]) -> str:
    """What the first versions print: 4e9 bytes, Gbit/s of what is sent twice, and of the bus."""
    lines = [f"{rank} data size: 4.0 GB\n" for rank in range(num_ranks)]
    for time in times:
        for rank in range(num_ranks):
            sent = 2 * 4e9 / time * 8
            bus = sent * (num_ranks - 1) / num_ranks / 1e9
            lines.append(
                f"{rank}:\n duration: {time:.4f} sec\n"
                f" algo throughput: {sent:.4f} bps, {sent / 1e9:.4f} Gbps\n"
                f" busbw: {bus:.4f}  Gbps\nignore me {rank}\n"
            )
    return "".join(lines)


def read(tmp_path: Path, text: str) -> pd.DataFrame:
    path = tmp_path / "job.out"
    path.write_text(text)
    return load_run(path).table("allreduce_bench")


def test_gbps_of_its_first_versions_are_bits(tmp_path: Path) -> None:
    (row,) = read(tmp_path, trials_of(16, [1.6, 0.8, 0.8])).to_dict("records")
    assert (row["np"], row["size_bytes"], row["line"]) == (16, 4_000_000_000, 1)
    assert row["algbw_gb_s"] == pytest.approx(4 / 0.8)
    assert row["busbw_gb_s"] == pytest.approx(4 / 0.8 * 2 * 15 / 16, rel=1e-5)


def test_trials_of_ranks_that_mix_do_not_count(tmp_path: Path) -> None:
    text = trials_of(4, [0.8, 0.8])
    mixed = text + " algo throughput: 1000.0 bps, 160.0000 Gbps\n busbw: 30.0000  Gbps\n"
    first, other = read(tmp_path, text), read(tmp_path, mixed)
    assert first["busbw_gb_s"].tolist() == other["busbw_gb_s"].tolist()
    assert other["np"].tolist() == [4]


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "oak1: "])
def test_trials_behind_prefixes_and_cut_ones(tmp_path: Path, prefix: str) -> None:
    whole = trials_of(4, [0.8])
    text = "".join(prefix + line for line in whole.splitlines(keepends=True))
    expected = read(tmp_path, whole)["busbw_gb_s"].tolist()
    assert read(tmp_path, text)["busbw_gb_s"].tolist() == expected
    cut = whole[: whole.index("busbw") + 12]
    assert read(tmp_path, cut + "\nStep 1\n" + trials_of(2, [0.4]))["np"].tolist() == [2]


@needs_corpus
def test_trials_of_the_corpus() -> None:
    for name, size in (("all_reduce_bench-32gb-n4", 16), ("n1_32gb_all_reduce_bench", 4)):
        (row,) = (
            load_run(CORPUS / "nccl_logs" / f"bigscience_{name}.txt")
            .table("allreduce_bench")
            .to_dict("records")
        )
        assert (row["np"], row["size_bytes"]) == (size, 4_000_000_000)


@needs_corpus
def test_the_table_of_the_corpus() -> None:
    rows = load_run(CORPUS / "nccl_tests" / "stas_all_reduce_bench_py.txt").table("allreduce_bench")
    assert rows["size_bytes"].tolist() == [2**power for power in range(15, 35)]
    assert rows["busbw_gb_s"].iloc[-1] == 482.26
    # The ratio of both is 2 (n - 1) / n: 8 ranks were started, which the file does not print.
    assert (rows["busbw_gb_s"] / rows["algbw_gb_s"]).median() == pytest.approx(1.75, abs=1e-3)
    assert rows["np"].isna().all()
