"""Planted lines are found, with their intervals; clean launches accuse none."""

from pathlib import Path

import numpy as np
import pytest

from hvdprof.analyze.causes.line_contrast import (
    CHANCE,
    Samples,
    lines_alone,
    longer_lines,
    on_every_rank,
)
from hvdprof.analyze.causes.line_times import WINDOW, SampledLines
from hvdprof.analyze.pipeline import analyze_run
from hvdprof.api import load_run
from hvdprof.model.tables.line_tables import LINE_SAMPLES
from tests.builders.analysis import sweep
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.sampled_lines import TRAIN, with_calls, with_samples

NUM = 202
PLANTED = ("/home/user/transforms.py", 41, "Dataset.__getitem__")


def slow_rank(folder, extra_ms, phase="data", *, np_=2, rank=1):
    """A run of two launches whose rank loses so much in a phase of its steps."""
    parts = {
        name: np.full((np_, NUM), float(length))
        for name, length in typical_parts(100.0, 4.0).items()
    }
    parts[phase][rank] += extra_ms
    parts["blocked"][np.arange(np_) != rank] += extra_ms
    segment = SegmentSpec(parts_ms=parts, num_steps=NUM - 2)
    specs = [PassSpec(size=np_, repeat=repeat, segments=[segment]) for repeat in (1, 2)]
    return load_run(write_run(Path(folder), specs))


def planted_in(phase, extra_ms, *, rank=1):
    """The time of the planted line: what the rank loses in the phase."""
    return lambda _, of, own, __: extra_ms * 1e6 * (of == phase and own == rank)


def every(period, delay_ms):
    """[steps] A delay in every so many steps."""
    extra = np.zeros(NUM)
    extra[period::period] = delay_ms
    return extra


@pytest.fixture(scope="module")
def persistent(tmp_path_factory):
    return slow_rank(tmp_path_factory.mktemp("run"), 30.0)


def test_the_line_of_a_slow_rank_is_found_with_its_interval(persistent):
    causes = analyze_run(with_samples(persistent, PLANTED, planted_in("data", 30.0))).line_causes
    assert causes[
        ["file", "line", "function", "ranks", "against", "process"]
    ].to_numpy().tolist() == [[*PLANTED, "1", "other ranks", "main"]]
    row = causes.iloc[0]
    assert row["cause_id"] == "straggler/1/data/persistent"
    assert row["excess_low_ns"] < 30e6 < row["excess_high_ns"]
    assert row["excess_high_ns"] - row["excess_low_ns"] < 6e6
    assert row["share"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(("delay_ms", "is_named"), [(14, True), (16, False)])
def test_no_line_is_named_for_a_delay_that_ends_before_its_samples(persistent, delay_ms, is_named):
    run = with_samples(persistent, PLANTED, planted_in("data", 30.0), delay_ns=delay_ms * 1_000_000)
    assert bool(len(analyze_run(run).line_causes)) == is_named


def test_it_stands_in_the_headline_the_finding_and_its_fix(persistent):
    analysis = analyze_run(with_samples(persistent, PLANTED, planted_in("data", 30.0)))
    finding = analysis.findings.iloc[0]
    assert "30.0 ms per step: transforms.py:41 (Dataset.__getitem__)" in analysis.verdict.headline
    assert finding[["code_file", "code_line", "code_function"]].tolist() == list(PLANTED)
    assert finding["fix"] == "look at transforms.py:41"
    assert "more per step than the other ranks at transforms.py:41" in finding["evidence"]


def test_a_rank_may_be_slower_on_a_line_of_all_ranks(persistent):
    analysis = analyze_run(with_samples(persistent))
    lines = analysis.line_causes[["file", "line"]].to_numpy().tolist()
    assert lines == [[TRAIN, 30]]


def test_pauses_are_found_in_their_steps(tmp_path):
    run = slow_rank(tmp_path, every(20, 600.0), "outside")
    causes = analyze_run(
        with_samples(run, (TRAIN, 57, "save"), planted_in("outside", 600.0))
    ).line_causes
    row = causes.iloc[0]
    assert len(causes) == 1
    assert row[["line", "function", "against"]].tolist() == [57, "save", "usual steps"]
    assert row[["num_events", "of_events"]].tolist() == [20, 20]
    assert row["excess_ns"] == pytest.approx(600e6, rel=0.1)


def test_a_call_with_exact_times_names_pauses_without_any_sample(tmp_path):
    run = slow_rank(tmp_path, every(20, 600.0), "outside")
    calls = [
        {
            "pass_id": pass_id,
            "segment": run.segments["segment"].iloc[0],
            "rank": rank,
            "step": step,
            "name": "torch.save",
            "duration_ns": length,
        }
        for pass_id in run.segments["pass_id"]
        for step in range(20, NUM, 20)
        # On the other rank it takes too little to be the pause.
        for rank, length in ((1, 580_000_000), (0, 1_000_000))
    ]
    analysis = analyze_run(with_calls(run, *calls))
    row = analysis.line_causes.iloc[0]
    assert row[["leaf", "against", "num_events", "of_events"]].tolist() == [
        "torch.save",
        "exact",
        20,
        20,
    ]
    assert "20 of 20 events: train.py:57 (torch.save), 580 ms each." in " ".join(
        analysis.findings["evidence"]
    )


def test_lines_of_workers_are_held_against_those_of_other_ranks(persistent):
    line = ("/home/user/transforms.py", 41, "Dataset.__getitem__")
    idle = (("", 0, ""), "torch/utils/data/_utils/worker.py _worker_loop", 900)
    workers = {0: [(line, "", 40), idle], 1: [(line, "", 300), idle]}
    causes = analyze_run(with_samples(persistent, workers=workers)).line_causes
    first = causes.iloc[0]
    assert first[["file", "process", "against"]].tolist() == [line[0], "worker", "other ranks"]
    assert not (causes["leaf"] == idle[1]).any()


WAITS = "multiprocessing/connection.py wait"


@pytest.mark.parametrize(
    ("leaf", "busy", "lines"),
    [(WAITS, 6000, [41]), ("", 6000, [41, 30]), (WAITS, 120, [41, 30])],
    ids=["waits", "works", "waits longer than workers explain"],
)
def test_the_line_that_waits_for_slow_workers_is_no_cause_beside_theirs(
    persistent, leaf, busy, lines
):
    workers = {0: [(PLANTED, "", 40)], 1: [(PLANTED, "", busy)]}
    sampled = with_samples(persistent, workers=workers)
    samples = sampled.line_samples.astype({"leaf": str})
    of_loop = (samples["process"] == "main") & (samples["phase"] == "data")
    samples.loc[of_loop, "leaf"] = leaf
    run = sampled.extended({"line_samples": LINE_SAMPLES.frame(samples)}, ())
    assert analyze_run(run).line_causes["line"].tolist() == lines


def test_what_workers_do_explains_input_of_all_ranks(tmp_path):
    parts = typical_parts(60.0, 2.0)
    parts["data"] = 40.0
    segment = SegmentSpec(parts_ms=parts, num_steps=60)
    run = load_run(
        write_run(tmp_path, [PassSpec(size=2, repeat=r, segments=[segment]) for r in (1, 2)])
    )
    busy = (("/home/user/data.py", 8, "read"), "PIL/Image.py decode", 70)
    idle = (("", 0, ""), "multiprocessing/queues.py Queue.get", 20)
    other = (("/home/user/data.py", 9, "crop"), "", 30)
    analysis = analyze_run(
        with_samples(run, workers={0: [busy, other, idle], 1: [busy, other, idle]})
    )
    rows = analysis.line_causes[(analysis.line_causes["cause_id"] == "input-bound").to_numpy()]
    assert rows[["line", "process", "against"]].to_numpy().tolist() == [
        [8, "worker", "alone"],
        [9, "worker", "alone"],
    ]
    assert rows["share"].tolist() == pytest.approx([0.7, 0.3])
    # What the samples of workers stand for is not time of a step.
    assert rows["excess_ns"].isna().all()


def test_the_share_of_a_worker_line_is_that_of_the_rank_with_least_of_it(tmp_path):
    parts = typical_parts(60.0, 2.0)
    parts["data"] = 40.0
    segment = SegmentSpec(parts_ms=parts, num_steps=60)
    run = load_run(write_run(tmp_path, [PassSpec(size=2, segments=[segment])]))
    read, crop = ("/home/user/data.py", 8, "read"), ("/home/user/data.py", 9, "crop")
    workers = {0: [(read, "", 80), (crop, "", 20)], 1: [(read, "", 60), (crop, "", 40)]}
    rows = analyze_run(with_samples(run, workers=workers)).line_causes
    assert dict(zip(rows["line"], rows["share"], strict=True)) == pytest.approx({8: 0.6, 9: 0.2})


def test_a_line_of_one_rank_explains_nothing_of_all_ranks(tmp_path):
    parts = {name: np.full((2, NUM), ms) for name, ms in typical_parts(60.0, 2.0).items()}
    parts["data"] += 40.0
    parts["data"][1] += 30.0
    parts["blocked"][0] += 30.0
    segment = SegmentSpec(parts_ms=parts, num_steps=NUM - 2)
    run = load_run(
        write_run(tmp_path, [PassSpec(size=2, repeat=r, segments=[segment]) for r in (1, 2)])
    )
    causes = analyze_run(with_samples(run, PLANTED, planted_in("data", 30.0))).line_causes
    of_all = causes[(causes["cause_id"] == "input-bound").to_numpy()]
    assert of_all[["line", "ranks"]].to_numpy().tolist() == [[30, "all"]]
    row = of_all.iloc[0]
    assert row["excess_low_ns"] < 40e6 < row["excess_high_ns"]
    of_rank = causes[(causes["ranks"] == "1").to_numpy()]
    assert of_rank["line"].tolist() == [41]


def test_a_slowdown_of_all_ranks_is_held_against_the_baseline(tmp_path):
    run = load_run(write_run(tmp_path, sweep({1: 60.0, 2: 90.0}, num_steps=100)))
    is_two = dict(zip(run.segments["pass_id"], run.segments["size"] == 2, strict=True))
    assert len(set(is_two.values())) == 2
    of_two = run.steps.merge(run.segments[["pass_id", "size"]], on="pass_id")
    assert of_two["size"].nunique() == 2
    causes = analyze_run(with_samples(run, hz=100.0)).line_causes
    own = causes[(causes["cause_id"] == "compute-inflation").to_numpy()]
    assert set(own["against"]) == {"baseline"}
    assert 32 in own["line"].tolist()


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """Two ranks alike."""
    segment = SegmentSpec(parts_ms=typical_parts(100.0, 4.0), num_steps=60)
    folder = tmp_path_factory.mktemp("run")
    return load_run(write_run(folder, [PassSpec(size=2, segments=[segment])]))


@pytest.mark.heavy
def test_clean_launches_accuse_no_line(clean):
    """Were one of equal ranks named, any line is named in 1 % of 200 draws of samples at most."""
    named = 0
    for seed in range(200):
        run = with_samples(clean, hz=60.0, seed=seed)
        sampled = SampledLines(run.table("line_samples"), run.table("line_sampling"), {})
        sides = []
        for rank in (0, 1):
            lines, whole = (
                table[(table["rank"] == rank).to_numpy()]
                for table in (sampled.lines, sampled.whole)
            )
            steps = float(whole.drop_duplicates(WINDOW)["steps"].sum())
            rate = float(whole["samples"].sum() / whole["sampled_ns"].sum())
            sides.append(Samples(lines, whole, steps, steps * rate))
        named += not longer_lines(*sides).empty
    # Of 200, a level of 1 % gives 6 or more with a chance of 1.6 %.
    assert named <= 200 * CHANCE + 4


def test_a_clean_run_accuses_none(clean):
    analysis = analyze_run(with_samples(clean))
    assert analysis.line_causes.empty
    assert len(analysis.lines)
    assert analysis.findings["code_file"].eq("").all()


def test_a_run_without_samples_has_no_tables(clean):
    analysis = analyze_run(clean)
    assert analysis.lines.empty
    assert analysis.line_causes.empty


def test_no_line_is_on_every_rank_where_none_was_sampled(persistent):
    run = with_samples(persistent)
    cut = SampledLines(run.table("line_samples")[:0], run.table("line_sampling"), {})
    own = Samples(cut.lines, cut.whole, 10.0, 1.0)
    assert on_every_rank(lines_alone(own), own, (0, 1)).empty


def test_a_rank_without_a_sample_has_no_line(persistent):
    run = with_samples(persistent)
    cut = SampledLines(run.table("line_samples"), run.table("line_sampling"), {})
    whole = cut.whole.assign(samples=cut.whole["samples"].where(cut.whole["rank"] == 0, 0))
    own = Samples(cut.lines[(cut.lines["rank"] == 0).to_numpy()], whole, 400.0, 1.0)
    assert len(lines_alone(own))
    assert on_every_rank(lines_alone(own), own, (0, 1)).empty


def test_a_line_of_the_only_busy_workers_is_not_one_of_each_rank(tmp_path):
    parts = typical_parts(60.0, 2.0)
    parts["data"] = 40.0
    segment = SegmentSpec(parts_ms=parts, num_steps=60)
    run = load_run(
        write_run(tmp_path, [PassSpec(size=2, repeat=r, segments=[segment]) for r in (1, 2)])
    )
    busy = (("/home/user/data.py", 8, "read"), "", 70)
    idle = (("", 0, ""), "multiprocessing/queues.py Queue.get", 20)
    causes = analyze_run(with_samples(run, workers={0: [idle], 1: [busy, idle]})).line_causes
    assert not (causes["cause_id"] == "input-bound").any()


@pytest.mark.parametrize(("idle", "lines"), [(60, [8]), (90, [])])
def test_workers_that_are_idle_most_of_the_time_explain_no_input(tmp_path, idle, lines):
    parts = typical_parts(60.0, 2.0)
    parts["data"] = 40.0
    segment = SegmentSpec(parts_ms=parts, num_steps=60)
    run = load_run(
        write_run(tmp_path, [PassSpec(size=2, repeat=r, segments=[segment]) for r in (1, 2)])
    )
    busy = (("/home/user/data.py", 8, "read"), "", 70)
    waits = (("", 0, ""), "multiprocessing/queues.py Queue.get", idle)
    sampled = with_samples(run, workers={0: [busy, waits], 1: [(*busy[:2], 700), waits]})
    causes = analyze_run(sampled).line_causes
    assert causes.loc[causes["cause_id"] == "input-bound", "line"].tolist() == lines


@pytest.mark.parametrize(("of_data", "lines"), [(0.4, []), (0.6, [41])])
def test_a_delay_in_no_single_phase_is_explained_by_most_of_it(tmp_path, of_data, lines):
    parts = {name: np.full((2, NUM), ms) for name, ms in typical_parts(100.0, 4.0).items()}
    for phase in ("data", "forward", "backward"):
        parts[phase][1] += 20.0
    parts["blocked"][0] += 60.0
    segment = SegmentSpec(parts_ms=parts, num_steps=NUM - 2)
    run = load_run(
        write_run(tmp_path, [PassSpec(size=2, repeat=r, segments=[segment]) for r in (1, 2)])
    )
    # The rest of the delay lies on lines that are no cause: each phase has its own.
    line_ms = {"data": 20.0, "forward": 60.0 * of_data - 20.0}
    planted = lambda _, phase, rank, __: 1e6 * line_ms.get(phase, 0.0) * (rank == 1)  # noqa: E731
    causes = analyze_run(with_samples(run, PLANTED, planted, hz=50.0)).line_causes
    mixed = causes["cause_id"].str.contains("mixed")
    assert causes.loc[mixed, "line"].tolist() == lines
    assert causes["cause_id"].str.startswith("straggler/1/mixed").all()
