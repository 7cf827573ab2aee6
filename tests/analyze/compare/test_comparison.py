"""Two runs of known step times and causes, compared."""

import os
import pickle
from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.compare.comparison_verdict import comparison_sentence
from hvdprof.api import analyze_run, compare, load_run
from hvdprof.errors import NotComparableError, UnreadableInputError, UsageError
from hvdprof.model.results.comparison import STEP_TIME, ComparisonOutcome, change_text
from hvdprof.model.tables.comparison_tables import COMPARED_POOLED, MOVED_CAUSES
from tests.builders.analysis import analysis_of, sweep, with_a_straggler
from tests.builders.finished_comparison import comparison
from tests.builders.light_recording import made_light
from tests.builders.run_directory import PassSpec, SegmentSpec, host_of, typical_parts, write_run


def rows_of(comparison, metric):
    return comparison.cells[comparison.cells["metric"] == metric].set_index(["engine", "np"])


ANALYSES = {}
"""By name and content of a run: a sweep that several tests compare is analyzed once."""


def shared(folder, passes, **manifest_fields):
    key = (folder.name, pickle.dumps((passes, manifest_fields)))
    if key not in ANALYSES:
        ANALYSES[key] = analysis_of(folder, passes, **manifest_fields)
    return ANALYSES[key]


def runs(folder, first, second, **manifest_fields):
    return shared(folder / "a", first), shared(folder / "b", second, **manifest_fields)


@pytest.mark.heavy
def test_a_slower_cell_is_named_with_its_change_and_the_others_are_equal(tmp_path):
    one, other = runs(
        tmp_path, sweep({0: 10.0, 1: 10.5, 2: 12.0}), sweep({0: 10.0, 1: 10.5, 2: 13.2})
    )
    found = compare(one, other, margin=0.03)

    assert found.outcome is ComparisonOutcome.REGRESSED
    assert found.sentence.startswith("REGRESSED: mnist on 2 ranks: step time +10.0 % (")
    step = rows_of(found, "step_time")
    assert step.loc[("horovod", 2), "change"] == pytest.approx(0.1, abs=1e-6)
    assert step.loc[("horovod", 2), "change_low"] > 0.03
    assert step.loc[("torch", 1), "outcome"] == "equal"
    efficiency = rows_of(found, "efficiency").loc[("horovod", 2)]
    assert efficiency["change"] == pytest.approx(10 / 13.2 - 10 / 12, abs=1e-6)
    assert efficiency["outcome"] == "regressed"


@pytest.mark.heavy
def test_the_same_run_twice_is_equal_or_undecided_and_never_worse(tmp_path):
    one, other = runs(tmp_path, sweep({0: 10.0, 2: 12.0}), sweep({0: 10.0, 2: 12.0}))
    found = compare(one, other, margin=0.03)

    assert found.outcome is ComparisonOutcome.EQUAL
    assert "within 3 %" in found.sentence
    assert not found.causes["moved"].any()
    assert found.settings.empty


@pytest.mark.heavy
def test_the_cause_that_moved_is_named_and_the_terms_sum_to_the_change(tmp_path):
    blocked = {2: 2.0}
    one, other = runs(
        tmp_path,
        sweep({0: 10.0, 2: 12.0}, blocked_ms=blocked),
        sweep({0: 10.0, 2: 15.0}, blocked_ms={2: 5.0}),
    )
    found = compare(one, other)

    assert "Largest part: exposed transfer, 3.0" in found.sentence
    own = found.causes[found.causes["np"] == 2]
    step = rows_of(found, "step_time").loc[("horovod", 2)]
    assert own["difference_ns"].sum() == pytest.approx(step["second"] - step["first"], rel=1e-9)
    assert own.loc[own["term"] == "exposed-transfer", "moved"].all()
    assert not own.loc[own["term"] == "reference", "moved"].any()


@pytest.mark.heavy
def test_one_launch_a_side_decides_nothing_and_says_why(tmp_path):
    passes = [PassSpec(size=2, segments=[SegmentSpec(parts_ms=typical_parts(12.0))])]
    slow = [PassSpec(size=2, segments=[SegmentSpec(parts_ms=typical_parts(18.0))])]
    found = compare(*runs(tmp_path, passes, slow))

    assert found.outcome is ComparisonOutcome.INCONCLUSIVE
    assert "One launch: the variation between launches is unknown" in found.sentence


@pytest.mark.heavy
def test_of_one_launch_each_no_metric_is_decided_the_efficiency_neither(tmp_path):
    def alone(step_ms):
        return [
            PassSpec(size=size, segments=[SegmentSpec(parts_ms=typical_parts(length))])
            for size, length in ((1, 10.0), (2, step_ms))
        ]

    found = compare(*runs(tmp_path, alone(14.2), alone(10.5)))

    efficiency = rows_of(found, "efficiency").loc[("horovod", 2)]
    assert efficiency["change"] == pytest.approx(0.248, abs=0.001)
    assert efficiency["outcome"] == "inconclusive"
    assert set(found.cells["outcome"]) == {"inconclusive"}


def test_the_verdict_names_the_other_metric_that_is_decided():
    cells = comparison(outcome=ComparisonOutcome.INCONCLUSIVE).cells
    cells.loc[cells["metric"] == "efficiency", ["change", "change_low", "change_high"]] = (
        (0.251, 0.21, 0.29),
    )
    cells.loc[cells["metric"] == "efficiency", "outcome"] = "improved"
    nothing = (COMPARED_POOLED.empty(), MOVED_CAUSES.empty())
    sentence = comparison_sentence(ComparisonOutcome.INCONCLUSIVE, STEP_TIME, cells, *nothing)
    assert sentence.startswith(
        "INCONCLUSIVE: resnet18 on 2 ranks: step time +6.1 % (+4.2 to +8.1); scaling efficiency "
        "of resnet18 on 2 ranks improved, +25.1 points (+21.0 to +29.0)."
    )


@pytest.mark.heavy
def test_analyses_are_compared_as_their_folders_are_and_print_the_verdict(tmp_path):
    one, other = runs(tmp_path, sweep({0: 10.0, 1: 10.5}), sweep({0: 10.0, 1: 13.2}))

    found = compare(one, other)

    assert found.sentence == compare(one.run.folder, other.run.folder).sentence
    assert repr(found) == f"<Comparison of a and b: {found.outcome}>"
    assert str(found).startswith(found.sentence)
    assert len(str(found).splitlines()) <= 6
    with pytest.raises(UsageError, match="a run equals itself"):
        compare(one, one.run.folder)


@pytest.mark.heavy
def test_noise_is_inconclusive_and_says_how_many_launches_would_decide(tmp_path):
    def noisy(seed):
        random = np.random.default_rng(seed)
        return [
            PassSpec(
                size=2,
                repeat=repeat,
                segments=[SegmentSpec(parts_ms=typical_parts(12.0 * random.normal(1, 0.05)))],
            )
            for repeat in range(1, 5)
        ]

    found = compare(*runs(tmp_path, noisy(1), noisy(2)))

    assert found.outcome is ComparisonOutcome.INCONCLUSIVE
    assert "launches a side would decide" in found.sentence
    assert "Measured one after the other" in found.caveat

    def sentence_of(**values):
        cells = found.cells.assign(**values)
        return comparison_sentence(found.outcome, STEP_TIME, cells, found.pooled, found.causes)

    few = sentence_of(launches_needed=np.nan)
    assert few.endswith(": 1,000 launches a side would not decide either.")
    unknown = sentence_of(launches_needed=np.nan, detectable=np.nan)
    assert unknown.endswith("is unknown: measure more launches a side.")
    assert "nan" not in unknown


@pytest.mark.heavy
def test_launches_by_turns_are_not_said_to_follow_each_other_where_there_is_one_pair(tmp_path):
    pair = [
        analysis_of(tmp_path / name, sweep({2: 12.0})[:1], paired_by="x") for name in ("a", "b")
    ]

    assert "one after the other" not in compare(*pair).caveat
    assert (
        "one after the other"
        in compare(pair[0], analysis_of(tmp_path / "c", sweep({2: 12.0})[:1])).caveat
    )


@pytest.mark.heavy
def test_caveats_of_each_run_stand_in_the_comparison_with_its_name(tmp_path):
    busy = [replace(one, other_cpu_cores=0.4) for one in sweep({0: 10.0, 2: 12.0})]
    found = compare(*runs(tmp_path, sweep({0: 10.0, 2: 12.0}), busy))

    assert " b: Other processes kept cores busy during " in found.caveat
    assert " a: Other" not in found.caveat


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"versions": {"python": "3.11.2", "torch": "2.4.0", "horovod": "0.28.1"}}, "torch"),
        ({"hosts": [host_of("node1") | {"cpu_model": "another"}]}, "cpu_model"),
        ({"settings": {"scaling": "weak", "num_threads": 4}}, "num_threads"),
    ],
)
def test_other_hosts_and_versions_are_not_comparable_unless_forced(tmp_path, fields, reason):
    one, other = runs(tmp_path, sweep({0: 10.0, 2: 12.0}), sweep({0: 10.0, 2: 14.0}), **fields)
    found = compare(one, other)
    assert found.outcome is ComparisonOutcome.NOT_COMPARABLE
    assert reason in found.sentence
    assert set(found.cells["outcome"]) == {"not comparable"}

    forced = compare(one, other, force=True)
    assert forced.outcome is ComparisonOutcome.REGRESSED
    assert reason in forced.caveat


@pytest.mark.heavy
def test_other_batches_are_not_comparable_by_step_time(tmp_path):
    one, other = runs(tmp_path, sweep({2: 12.0}, batch_size=32), sweep({2: 12.0}, batch_size=64))
    found = compare(one, other)
    assert found.outcome is ComparisonOutcome.NOT_COMPARABLE
    assert "samples per rank and step 32 and 64" in found.sentence

    forced = compare(one, other, force=True)
    assert forced.metric.name == "throughput"
    assert rows_of(forced, "throughput").loc[("horovod", 2), "change"] == pytest.approx(1.0)


@pytest.mark.heavy
def test_settings_that_differ_are_listed(tmp_path):
    one, other = runs(
        tmp_path,
        sweep({2: 12.0}),
        sweep({2: 12.0}),
        settings={"scaling": "weak", "num_threads": 1, "cycle_time_ms": 5.0},
        environment={"HOROVOD_FUSION_THRESHOLD": "0"},
    )
    found = compare(one, other).settings.set_index("name")
    assert found.loc["cycle_time_ms", "second"] == "5.0"
    assert found.loc["HOROVOD_FUSION_THRESHOLD", ["place", "first"]].tolist() == ["environment", ""]
    assert not found["matters"].any()


@pytest.mark.heavy
def test_two_scripts_of_other_names_are_matched_and_it_is_said(tmp_path):
    one, other = runs(
        tmp_path, sweep({2: 12.0}, model="train_a"), sweep({2: 12.0}, model="train_b")
    )
    found = compare(one, other)
    assert "train_a of the first run is compared with train_b of the second." in found.notes


@pytest.mark.heavy
def test_runs_without_a_common_cell_are_refused_with_what_each_has(tmp_path):
    one, other = runs(tmp_path, sweep({2: 12.0}), sweep({4: 12.0}))
    with pytest.raises(NotComparableError) as error:
        compare(one, other)
    assert "mnist on 2 ranks" in error.value.hint
    assert "mnist on 4 ranks" in error.value.hint
    assert "Compare runs that share a model and a number of ranks." in error.value.hint


@pytest.mark.heavy
def test_a_run_of_torch_and_one_of_its_twins_are_refused_with_the_reason(tmp_path):
    one, other = runs(tmp_path, sweep({2: 12.0}), sweep({4: 12.0}, model="keras-mnist"))
    for first, second in ((one, other), (other, one)):
        with pytest.raises(NotComparableError) as error:
            compare(first, second)
        assert error.value.hint.startswith("keras-mnist is the twin of mnist in Keras: ")
        assert "Compare runs of one framework" in error.value.hint


@pytest.mark.heavy
def test_cells_of_one_run_alone_are_noted(tmp_path):
    one, other = runs(tmp_path, sweep({2: 12.0, 4: 13.0}), sweep({2: 12.0}))
    assert "Only a has mnist on 4 ranks." in compare(one, other).notes


def test_tables_of_throughputs_are_compared_by_their_repeats(tmp_path):
    for name, rate in (("a", 100.0), ("b", 90.0)):
        rows = [
            f"{size},{size * rate * factor}" for size in (1, 2) for factor in (0.995, 1.0, 1.005)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["np,samples/s", *rows]))
    found = compare(tmp_path / "a.csv", tmp_path / "b.csv")

    assert found.outcome is ComparisonOutcome.REGRESSED
    assert found.metric.name == "throughput"
    assert "throughput -10.0 %" in found.sentence


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(UnreadableInputError, match="not a run directory"):
        compare(tmp_path, tmp_path.parent)
    with pytest.raises(UsageError, match="margin"):
        compare(tmp_path, tmp_path, margin=0.0)


def test_a_pipe_in_place_of_a_table_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableInputError, match="named pipe"):
        compare(tmp_path / "pipe", tmp_path / "b.csv")
    with pytest.raises(UnreadableInputError, match="does not exist"):
        compare(tmp_path / "a.csv", tmp_path / "b.csv")


@pytest.mark.heavy
def test_a_run_in_progress_is_compared_with_a_note(tmp_path):
    one = analysis_of(tmp_path / "a", sweep({2: 12.0}))
    folder = write_run(tmp_path / "b", sweep({2: 12.0}), status="running")
    found = compare(one, analyze_run(load_run(folder)))
    assert "b is in progress: what is measured so far is compared." in found.notes


def script_settings(**variables):
    command = ["python", "train.py", "--api-key", "hunter2"]
    script = {"command": command, "variables": variables}
    return {"scaling": "weak", "num_threads": 1, "script": script}


@pytest.mark.heavy
def test_secrets_of_commands_and_variables_are_not_in_the_manifests_that_are_compared(tmp_path):
    one, other = (
        analysis_of(
            tmp_path / name,
            sweep({2: 12.0}),
            settings=script_settings(WANDB_API_KEY=key, BUCKETS=name),
        )
        for name, key in (("a", "abc-secret"), ("b", "def-secret"))
    )
    settings = compare(one, other).settings
    assert settings["name"].tolist() == ["--env BUCKETS"]
    shown = settings.to_csv() + str(one.run.manifest.settings)
    assert "secret" not in shown
    assert "hunter2" not in shown


@pytest.mark.heavy
def test_equal_does_not_speak_for_cells_that_are_not_comparable(tmp_path):
    one, other = runs(
        tmp_path,
        [*sweep({2: 12.0}), *sweep({4: 12.0}, batch_size=32)],
        [*sweep({2: 12.0}), *sweep({4: 18.0}, batch_size=64)],
    )
    found = compare(one, other, margin=0.03, fail_on=["step_time>3%"])

    assert found.outcome is ComparisonOutcome.EQUAL
    assert "of mnist on 2 ranks within 3 %" in found.sentence
    assert "Not compared: mnist on 4 ranks (samples per rank and step 32 and 64)." in found.caveat
    assert found.gate[0].not_judged == ("mnist on 4 ranks",)


@pytest.mark.heavy
def test_a_throughput_that_fell_by_the_margin_is_at_its_limit(tmp_path):
    one, other = runs(tmp_path, sweep({2: 10.0}), sweep({2: 10.0 / 0.62}))
    assert not compare(one, other, fail_on=["throughput<-50%"]).gate[0].cells
    assert compare(one, other, fail_on=["throughput<-30%"]).gate[0].cells


@pytest.mark.heavy
def test_stored_pairs_have_the_level_of_the_looks_that_ended_them(tmp_path):
    settings = {"scaling": "weak", "num_threads": 1, "repeats": 10}
    one, other = (
        analysis_of(tmp_path / name, sweep({2: 12.0}), settings=settings, paired_by="x")
        for name in ("a", "b")
    )
    found = compare(one, other)
    assert found.cells["paired"].any()
    assert found.confidence == pytest.approx(1 - 2 * 0.0204, abs=1e-6)


@pytest.mark.heavy
def test_the_conditions_of_a_gate_are_one_family(tmp_path):
    """The more is asked, the surer each failure must be, as with the number of cells."""
    steps = [[10.33, 10.55, 10.43], [10.0, 10.1, 9.9]]
    one, other = (
        analysis_of(tmp_path / name, launches_of(own))
        for name, own in zip("ab", reversed(steps), strict=True)
    )

    alone = compare(one, other, fail_on=["step_time>2%"])
    of_many = [f"{name}>2%" for name in ("step_time", "step_time_p95")] + ["throughput<-2%"]
    together = compare(one, other, fail_on=of_many)

    assert alone.gate[0].outcome is ComparisonOutcome.REGRESSED
    assert {result.outcome for result in together.gate} == {ComparisonOutcome.INCONCLUSIVE}
    needed = [rows_of(found, "step_time")["detectable"].item() for found in (alone, together)]
    assert needed[0] < needed[1]


def launches_of(steps_ms):
    return [
        PassSpec(size=2, repeat=repeat, segments=[SegmentSpec(parts_ms=typical_parts(step))])
        for repeat, step in enumerate(steps_ms, start=1)
    ]


@pytest.mark.heavy
def test_the_startup_of_launches_is_compared(tmp_path):
    one, other = (
        analysis_of(tmp_path / name, launches_of([10.0, 10.1, 9.9])) for name in ("a", "b")
    )
    for analysis, startups_s in ((one, [4.0, 4.1, 3.9]), (other, [5.0, 5.1, 4.9])):
        analysis.run.segments["startup_ns"] = np.array(startups_s) * 1e9

    found = compare(one, other, fail_on=["startup>10%"])

    row = rows_of(found, "startup").loc[("horovod", 2)]
    assert (row["outcome"], row["unit"]) == ("regressed", "ns")
    assert row["first"] == pytest.approx(4e9, rel=1e-3)
    assert row["change"] == pytest.approx(0.25, abs=0.01)
    assert found.gate[0].outcome is ComparisonOutcome.REGRESSED


@pytest.mark.heavy
def test_runs_without_a_known_startup_have_no_row_of_it(tmp_path):
    one, other = runs(tmp_path, sweep({2: 10.0}), sweep({2: 10.0}))

    assert rows_of(compare(one, other), "startup").empty


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (-0.2, -0.35, -0.004, "-20.0 % (-35.0 to -0.4)"),
        (-0.2, -0.35, -0.08, "-20 % (-35 to -8)"),
        (0.0, -0.0001, 0.0001, "+0.0 % (+0.0 to +0.0)"),
    ],
)
def test_an_end_near_zero_keeps_its_sign_or_has_none(value, low, high, text):
    row = {"change": value, "change_low": low, "change_high": high}

    assert change_text(row, STEP_TIME) == text


@pytest.mark.heavy
def test_a_rank_below_the_threshold_of_a_straggler_is_named_from_both_runs(tmp_path):
    """Rank 1 takes 4 % of the step longer: neither run alone calls it a straggler."""
    one, other = runs(
        tmp_path,
        with_a_straggler(extra_ms=(0.02, 0.0, 0.01)),
        with_a_straggler(extra_ms=(0.42, 0.38, 0.41)),
    )
    assert "straggler" not in set(other.table("waterfall")["term"])
    found = compare(one, other)

    assert found.outcome is ComparisonOutcome.REGRESSED
    assert "Rank 1 is slower in forward by 393 µs (" in found.sentence
    assert found.sentence.endswith(", which costs 389 µs per step.")
    own = found.causes[found.causes["np"] == 2]
    step = rows_of(found, "step_time").loc[("horovod", 2)]
    assert own["difference_ns"].sum() == pytest.approx(step["second"] - step["first"], rel=1e-6)
    assert own[own["moved"]]["term"].tolist() == ["rank-change"]


@pytest.mark.heavy
def test_light_recordings_name_the_rank_that_changed_as_well(tmp_path):
    for name, extra in (("a", (0.02, 0.0, 0.01)), ("b", (0.42, 0.38, 0.41))):
        passes = [one for one in with_a_straggler(extra_ms=extra) if one.size == 2]
        made_light(write_run(tmp_path / name, passes))
    found = compare(tmp_path / "a", tmp_path / "b")

    assert "Rank 1 is slower in forward by 393 µs (" in found.sentence


@pytest.mark.heavy
def test_an_undecided_comparison_still_names_the_rank_that_changed(tmp_path):
    shared = (-1.0, 0.0, 1.0)
    sides = [
        [
            PassSpec(
                size=2,
                repeat=repeat,
                segments=[SegmentSpec(parts_ms=parts_of(12.0 + drift, late_ms + 0.01 * repeat))],
            )
            for repeat, drift in enumerate(shared, start=1)
        ]
        for late_ms in (0.0, 0.5)
    ]
    found = compare(*runs(tmp_path, *sides))

    assert found.outcome is ComparisonOutcome.INCONCLUSIVE
    assert "launches a side would decide. Rank 1 is slower in forward by 500 µs" in found.sentence


def parts_of(step_ms, late_ms):
    parts = {name: np.full((2, 1), one) for name, one in typical_parts(step_ms, 1.0).items()}
    parts["forward"][1] += late_ms
    parts["blocked"][0] += late_ms
    return parts
