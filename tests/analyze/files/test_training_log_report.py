from pathlib import Path

from hvdprof.api import analyze_files, load_run
from hvdprof.model.file_page import FilePage
from hvdprof.model.standalone_files import FilesAnalysis
from tests.ingest.logs.test_deepspeed_comms import SUMMARY, VERBOSE
from tests.ingest.logs.test_megatron_log import OF_RANKS, STRAGGLERS, WORLD, iteration


def analysed(folder: Path, **files: str) -> FilesAnalysis:
    for name, text in files.items():
        (folder / f"{name}.out").write_text(text)
    return analyze_files(load_run(folder))


def page_of(folder: Path, text: str) -> FilePage:
    (page,) = analysed(folder, job=text).files
    return page


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


def test_logs_of_several_rank_counts_give_scaling(tmp_path: Path) -> None:
    steps = "".join(iteration(number, 500) for number in range(1, 5))
    slower = "".join(iteration(number, 300) for number in range(1, 5))
    both = analysed(tmp_path, a=WORLD + steps, b=WORLD.replace("8,", "16,") + slower)
    assert sorted(both.throughput_scaling["np"]) == [8, 16]


def test_the_rank_with_the_lowest_throughput_is_named(tmp_path: Path) -> None:
    page = page_of(tmp_path, STRAGGLERS.replace("296.02TF", "250.00TF") * 3)
    assert page.verdict == (
        "Rank 0 has the lowest estimated throughput in 3 of 3 reports; medians 250.0 TF lowest, "
        "297.3 TF highest (15.9 % less)."
    )
    assert page_of(tmp_path, STRAGGLERS * 3).verdict == ""


def test_timers_with_the_largest_difference_come_first(tmp_path: Path) -> None:
    page = page_of(tmp_path, OF_RANKS)
    (fact,) = [fact for fact in page.facts if fact.name == "each_timer"]
    assert str(fact.value).startswith("forward-compute: 3.75 ms between the fastest")
