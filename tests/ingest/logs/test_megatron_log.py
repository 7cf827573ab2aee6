# ruff: noqa: E501  (lines of logs are as long as they are)
from pathlib import Path

import pytest

from hvdprof.ingest.logs.megatron_log import MegatronLog
from hvdprof.ingest.logs.printed_rates import PrintedRates
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.printed import read_part

WORLD = "using world size: 8, data-parallel size: 8\n"


def iteration(number: int, step_ms: float, batch: int | None = 256) -> str:
    size = "" if batch is None else f" global batch size: {batch:5d} |"
    return (
        f" [2026-03-01 10:00:{number:02d}] iteration {number:8d}/     500 | consumed samples: "
        f"{number * 256:12d} | elapsed time per iteration (ms): {step_ms:.1f} | throughput per GPU "
        f"(TFLOP/s/GPU): 310.5 | learning rate: 1.0E-05 |{size} lm loss: 1.0E+01 |\n"
    )


TIMERS = """\
(min, max) time across ranks (ms):
    forward-backward ...............................: (26094.39, 26195.09)
    optimizer ......................................: (3407.56, 3409.92)
"""
OF_RANKS = """\
times across ranks (ms):
  forward-compute:
     rank  0: 10.50
     rank  1: 14.25
  optimizer:
     rank  0: 3.00
     rank  1: 2.00
done
"""
STRAGGLERS = " 0: INFO:megatron.core.utils:[2024-03-14 23:07:56] | MnRtt/Rnk: 3453.08ms/8 | MxRtt/Rnk: 3468.20ms/0 | MnPwr/Rnk: 601796W/8 | MnTmp/Rnk: 52C/0 | MnUtl/Rnk: 97%/8 | MxClk/Rnk: 1980MHz/0 | MxDRtt/Rnk: 34.65ms/3 | MnEtpt/Rnk: 296.02TF/0 | MxEtpt/Rnk: 297.32TF/8\n"


def test_iterations_and_the_throughput_of_the_job(tmp_path: Path) -> None:
    text = WORLD + "".join(
        iteration(number, ms) for number, ms in ((1, 9e4), (2, 500), (3, 520), (4, 480))
    )
    tables, _ = read_part(PrintedRates, text, tmp_path)
    rows = tables["training_iterations"]
    assert list(rows["step_ns"] // 10**6) == [90_000, 500, 520, 480]
    assert list(rows["np"]) == [8] * 4
    assert rows["tflops_per_gpu"].iloc[0] == 310.5
    (throughput,) = tables["throughput"].to_dict("records")
    assert (throughput["np"], throughput["samples_per_s"]) == (8, pytest.approx(512.0))


def test_without_ranks_or_batch_size_there_is_no_throughput(tmp_path: Path) -> None:
    steps = "".join(iteration(number, 500) for number in range(1, 5))
    assert read_part(PrintedRates, steps, tmp_path)[0]["throughput"].empty
    bare = WORLD + "".join(iteration(number, 500, None) for number in range(1, 5))
    tables, _ = read_part(PrintedRates, bare, tmp_path)
    assert tables["throughput"].empty
    assert len(tables["training_iterations"]) == 4


def test_timers_give_the_fastest_and_the_slowest_rank(tmp_path: Path) -> None:
    rows = read_part(MegatronLog, iteration(7, 1.0) + TIMERS + "end\n", tmp_path)[0]["rank_timers"]
    assert list(rows["timer"]) == ["forward-backward", "optimizer"]
    assert list(rows["min_ns"]) == [26_094_390_000, 3_407_560_000]
    assert list(rows["iteration"]) == [7, 7]
    longest = TIMERS.replace("(min, max)", "max").replace("(26094.39, 26195.09)", "26195.09")
    assert read_part(MegatronLog, longest, tmp_path)[0]["rank_timers"]["min_ns"].isna().sum() == 1


def test_times_of_all_ranks_name_the_slowest(tmp_path: Path) -> None:
    rows = read_part(MegatronLog, OF_RANKS, tmp_path)[0]["rank_timers"]
    assert list(rows["slowest_rank"]) == [1, 0]
    assert list(rows["fastest_rank"]) == [0, 1]
    assert list(rows["max_ns"]) == [14_250_000, 3_000_000]
    assert list(rows["second_max_ns"]) == [10_500_000, 2_000_000]
    assert list(rows["num_ranks"]) == [2, 2]


def test_times_of_one_rank_are_those_of_one_rank(tmp_path: Path) -> None:
    line = "time (ms) | forward: 1.50 | optimizer-inner-step: 46.00 | batch generator: 5.24\n"
    alone = "time (ms):\n    optimizer ......................................: 3.00\n"
    rows = read_part(MegatronLog, iteration(3, 1.0) + line + alone, tmp_path)[0]["rank_timers"]
    assert list(rows["timer"]) == [
        "forward",
        "optimizer-inner-step",
        "batch generator",
        "optimizer",
    ]
    assert list(rows["max_ns"]) == [1_500_000, 46_000_000, 5_240_000, 3_000_000]
    assert set(rows["num_ranks"]) == {1}
    assert rows["slowest_rank"].isna().all()


def test_the_pipeline_stages_stand_beside_the_timers(tmp_path: Path) -> None:
    world = WORLD.replace("size: 8\n", "size: 2, pipeline-model-parallel size: 4 \n")
    rows = read_part(MegatronLog, world + TIMERS, tmp_path)[0]["rank_timers"]
    assert set(rows["pipeline_stages"]) == {4}


def test_every_extreme_of_a_straggler_report(tmp_path: Path) -> None:
    rows = read_part(MegatronLog, STRAGGLERS, tmp_path)[0]["straggler_reports"]
    assert len(rows) == 9
    lowest = rows[(rows["metric"] == "Etpt") & (rows["extreme"] == "min")].iloc[0]
    assert (lowest["value"], lowest["unit"], lowest["rank"]) == (296.02, "TF", 0)


@pytest.mark.heavy
@needs_corpus
def test_a_public_log_of_64_ranks() -> None:
    from hvdprof.api import load_run

    run = load_run(CORPUS / "nccl_logs" / "bigscience_meg_ds_3d_gpt2_perf_n16.out")
    assert list(run.training_iterations["step_ns"]) == [150_471_300_000, 145_207_000_000]
    assert set(run.training_iterations["np"]) == {64}
