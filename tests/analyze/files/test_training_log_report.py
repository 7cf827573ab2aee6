import re
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.model.file_page import FilePage
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.report.answers.files import files_answer
from tests.builders.iteration_logs import correlated_steps, write_log
from tests.ingest.logs.deepspeed.test_deepspeed_comms import SUMMARY, VERBOSE
from tests.ingest.logs.test_megatron_log import OF_RANKS, STRAGGLERS, WORLD, iteration


def analysed(folder: Path, **files: str) -> FilesAnalysis:
    for name, text in files.items():
        (folder / f"{name}.out").write_text(text)
    return analyze_files(load_run(folder))


def page_of(folder: Path, text: str) -> FilePage:
    (page,) = analysed(folder, job=text).files
    return page


@pytest.mark.heavy
def test_the_last_summary_of_deepspeed_is_the_verdict(tmp_path: Path) -> None:
    page = page_of(tmp_path, VERBOSE + SUMMARY)
    assert page.kind == "DeepSpeed comms log"
    assert page.verdict == (
        "reduce_scatter_tensor of 712 MB takes 98.2 % of the logged time in collectives; mean bus "
        "bandwidth 172 GB/s."
    )
    assert "nothing overlaps" in page.caveat
    facts = {fact.name: fact.value for fact in page.facts}
    assert facts["num_collectives"] == 188


def test_iterations_give_median_rate_and_the_way_to_scaling(tmp_path: Path) -> None:
    page = page_of(tmp_path, WORLD + "".join(iteration(number, 500) for number in range(1, 5)))
    assert page.verdict == ("Iteration: median 500 ms, 512 samples/s, 310.5 TFLOP/s per GPU.")


def test_one_line_after_the_first_is_not_called_a_median(tmp_path: Path) -> None:
    page = page_of(tmp_path, WORLD + iteration(1, 900) + iteration(2, 500))
    assert page.verdict == (
        "Iteration: 500 ms, 512 samples/s, 310.5 TFLOP/s per GPU, in the one line after the first."
    )


@pytest.mark.heavy
def test_logs_of_several_rank_counts_give_scaling(tmp_path: Path) -> None:
    steps = "".join(iteration(number, 500) for number in range(1, 5))
    slower = "".join(iteration(number, 300) for number in range(1, 5))
    both = analysed(tmp_path, a=WORLD + steps, b=WORLD.replace("8,", "16,") + slower)
    assert sorted(both.throughput_scaling["np"]) == [8, 16]


@pytest.mark.heavy
def test_the_scaling_of_logs_has_the_intervals_of_their_iterations(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for size, mean in ((8, 500.0), (16, 270.0)):
        steps = correlated_steps(rng, 100, mean, spread=0.02, correlation=0.5)
        write_log(tmp_path / f"np{size}.log", size, steps)
    found = analyze_files(load_run(tmp_path))
    base, last = found.throughput_scaling.to_dict("records")
    assert base["samples_per_s_low"] < base["samples_per_s"] < base["samples_per_s_high"]
    assert last["efficiency_low"] < last["efficiency"] < last["efficiency_high"]
    shown = StringIO()
    files_answer(found).write("terminal", shown)
    assert "against np=8, 95 % CI within each launch" in shown.getvalue()
    assert re.search(r"16 +9\d\d ± \d+ +1\.\d+ ± 0\.\d+ +9\d\.\d ± ", shown.getvalue())


@pytest.mark.heavy
def test_the_rank_with_the_lowest_throughput_is_named(tmp_path: Path) -> None:
    page = page_of(tmp_path, STRAGGLERS.replace("296.02TF", "250.00TF") * 3)
    assert page.verdict == (
        "Rank 0 has the lowest estimated throughput in 3 of 3 reports; medians 250.0 TFLOP/s "
        "lowest, 297.3 TFLOP/s highest (15.9 % less)."
    )
    assert page_of(tmp_path, STRAGGLERS * 3).verdict == ""


def test_timers_with_the_largest_difference_come_first(tmp_path: Path) -> None:
    page = page_of(tmp_path, OF_RANKS)
    (fact,) = [fact for fact in page.facts if fact.name == "each_timer"]
    assert str(fact.value).startswith("forward-compute: 3.75 ms between the fastest")


def test_straggler_reports_spell_out_their_abbreviations_and_units(tmp_path: Path) -> None:
    (fact,) = [one for one in page_of(tmp_path, STRAGGLERS).facts if one.name == "each_extreme"]
    lines = str(fact.value).splitlines()
    assert "min GPU power (Pwr): median 601.8 W, rank 8 in 1 of 1 report" in lines
    assert "max data time (DRtt): median 34.65 ms, rank 3 in 1 of 1 report" in lines
    assert (
        "min estimated throughput (Etpt): median 296.02 TFLOP/s, rank 0 in 1 of 1 report" in lines
    )


def test_one_call_is_singular(tmp_path: Path) -> None:
    (fact,) = [one for one in page_of(tmp_path, VERBOSE).facts if one.name == "each_size"]
    assert ": 1 call, total" in str(fact.value)
