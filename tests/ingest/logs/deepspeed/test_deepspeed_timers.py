# ruff: noqa: E501  (lines of logs are as long as they are)
"""Timers of DeepSpeed's wall_clock_breakdown, and what they say of a step."""

from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.ingest.logs.deepspeed.deepspeed_timers import DeepSpeedTimers
from hvdprof.ingest.logs.megatron_log import MegatronLog
from tests.builders.log_prefixes import PREFIXES
from tests.builders.printed import read_part

HEAD = "[2026-04-04 09:09:53,313] [INFO] [logging.py:96:log_dist] "


def newer(allreduce: float, head: str = f"{HEAD}[Rank 0] ") -> str:
    return (
        f"{head}time (ms) | fwd_microstep: 9.00 | bwd_microstep: 9.00 | bwd_inner_microstep: 9.00 | bwd_allreduce_microstep: 9.00 | step_microstep: 9.00\n"
        f"{head}time (ms) | fwd: 100.00 | bwd: 300.00 | bwd_inner: {300 - allreduce:.2f} | bwd_allreduce: {allreduce:.2f} | step: 100.00\n"
    )


OLDER = f"{HEAD}[Rank 0] rank=0 time (ms) | forward: 400.25 | backward: 700.50 | backward_inner: 450.25 | backward_allreduce: 250.25 | step: 1.50\n"
BARE = "time (ms) | forward: 200.75 | backward: 320.50 | backward_inner: 320.25 | backward_allreduce: 0.00 | step: 0.75\n"
PIPELINE = f"{HEAD}[Rank 0] rank=0 time (ms) | batch_input: 2.50 | forward: 1.00 | backward: 2.00 | backward_inner: 2.00 | backward_allreduce: 0.00 | step: 0.50\n"


def times(text: str, folder: Path) -> list[list[float]]:
    """The milliseconds of each step."""
    rows = read_part(DeepSpeedTimers, text, folder)[0]["rank_timers"]
    assert set(rows["num_ranks"].dropna()) <= {1}
    return [(own["max_ns"] / 1e6).tolist() for _, own in rows.groupby("line", sort=False)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (newer(60), [100.0, 300.0, 240.0, 60.0, 100.0]),
        (OLDER, [400.25, 700.50, 450.25, 250.25, 1.50]),
        (BARE, [200.75, 320.50, 320.25, 0.0, 0.75]),
        (PIPELINE, [1.0, 2.0, 2.0, 0.0, 0.5]),
    ],
)
def test_lines_of_steps_are_read_and_those_of_micro_batches_are_not(
    tmp_path: Path, text: str, expected: list[float]
) -> None:
    assert times(text, tmp_path) == [expected]
    # Megatron of 2021 prints timers of one rank in the same form.
    assert read_part(MegatronLog, text, tmp_path)[0]["rank_timers"].empty


@pytest.mark.parametrize("width", [100, 132])
def test_a_wrapped_line_is_one_line(tmp_path: Path, width: int) -> None:
    line = OLDER.rstrip()
    pieces = "".join(f"{line[at : at + width]}\n" for at in range(0, len(line), width))
    assert times(pieces, tmp_path) == times(OLDER, tmp_path)
    words = OLDER.replace(" | backward_inner", " |\nbackward_inner").replace("| step", "|\nstep")
    assert times(words, tmp_path) == times(OLDER, tmp_path)


def test_a_glued_line_is_two_and_other_lines_between_change_nothing(tmp_path: Path) -> None:
    assert len(times(newer(60).replace("\n", " ") + OLDER, tmp_path)) == 1
    mixed = f"Loading extension\n{newer(60)}step 1 loss 2.0\n{newer(70)}"
    assert [own[3] for own in times(mixed, tmp_path)] == [60.0, 70.0]


@pytest.mark.parametrize("prefix", PREFIXES, ids=lambda one: one.name)
def test_behind_any_prefix(tmp_path: Path, prefix: object) -> None:
    assert times(prefix.of(newer(60) * 3), tmp_path) == times(newer(60) * 3, tmp_path)  # type: ignore[attr-defined]


def test_a_number_that_the_end_of_the_file_cuts_does_not_count(tmp_path: Path) -> None:
    text = newer(60) + newer(70)
    path = tmp_path / "job.log"
    for place in range(len(text) - 1, len(text) - 40, -1):
        path.write_text(text[:place])
        rows = load_run(path).table("rank_timers")
        assert set(rows.loc[(rows["timer"] == "step").to_numpy(), "max_ns"]) <= {100_000_000}, place
        assert len(rows) == 5


def test_the_share_of_the_allreduce_is_of_one_rank_and_says_what_it_bears(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(newer(290) + newer(50) + newer(100) + newer(110))
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict == (
        "On rank 0, bwd_allreduce takes 20.0 % of a step of 500 ms (DeepSpeed: fwd 100 ms, bwd 300 "
        "ms, step 100 ms; median of 3 steps after the first)."
    )
    assert "waits for slower ranks included" in page.caveat
    facts = {fact.name: fact for fact in page.facts}
    assert facts["allreduce_share"].value == pytest.approx(0.2)
    assert "bwd_allreduce: 100 ms" in str(facts["each_timer"].value)


def test_of_a_rank_that_is_not_stated_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(BARE)
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict.startswith("On the rank that prints, bwd_allreduce takes 0.0 % of a step")


def test_the_rate_of_the_same_output_is_on_the_page_too(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    rate = "[timer.py:199:stop] epoch=0/micro_step=1/global_step={0}, RunningAvgSamplesPerSec=240.5, CurrSamplesPerSec=256.{0}, MemAllocated=2.0GB\n"
    path.write_text("".join(newer(100) + rate.format(n) for n in range(1, 6)))
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict.startswith("On rank 0, bwd_allreduce takes 20.0 %")
    (fact,) = [fact for fact in page.facts if fact.name == "rate_median"]
    assert fact.label == "rate of all ranks together, median"
    assert fact.value == pytest.approx(256.35)
