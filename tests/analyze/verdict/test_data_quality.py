import dataclasses
from pathlib import Path

import numpy as np
import pytest

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.analyze.verdict.data_quality import warnings_of
from hvdprof.api import load_run
from hvdprof.model.notes import Note, NoteCode, texts
from hvdprof.rundir.failures.launcher_failures import Failure
from tests.builders import finished_analysis
from tests.builders.analysis import analysis_of, autoregressive, sweep
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

TWO = {0: 10.0, 2: 12.5}


def warnings(folder: Path, passes: list[PassSpec], **manifest: object) -> list[str]:
    return list(analysis_of(folder, passes, **manifest).warnings)


def changed(**fields: object) -> list[PassSpec]:
    passes = sweep(TWO)
    for name, value in fields.items():
        setattr(passes[-1], name, value)
    return passes


@pytest.mark.heavy
def test_a_good_run_has_none(tmp_path: Path) -> None:
    assert warnings(tmp_path, sweep(TWO)) == []


@pytest.mark.heavy
def test_files_beside_the_only_run_of_a_folder_are_counted(tmp_path: Path) -> None:
    write_run(tmp_path / "run", sweep(TWO))
    (tmp_path / "job.out").write_text("text\n")
    analysis = analyze_run(load_run([tmp_path]))
    assert analysis.warnings == (f"1 file beside the run directory {tmp_path}/run: not read.",)


@pytest.mark.heavy
def test_those_of_the_run_come_first(tmp_path: Path) -> None:
    sentences = warnings(tmp_path, changed(pinned=False), warnings=["The disk was full."])
    assert sentences == [
        "The disk was full.",
        "np=2: ranks were not pinned to their own cores, so the kernel may have moved them "
        "between cores.",
    ]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"other_cpu_cores": 0.7},
            "Other processes kept cores busy during 1 of 6 passes, up to 0.7 cores in "
            "06-np2-throughput-r3.",
        ),
        (
            {"steal_share": 0.05},
            "The hypervisor took cores away during 1 of 6 passes, at most 5.0 % of the time in "
            "06-np2-throughput-r3.",
        ),
        (
            {"num_threads": [1, 2]},
            "Ranks computed with 1 or 2 threads: cells with different threads per rank cannot be "
            "compared.",
        ),
        (
            {"missing_ranks": [1]},
            "1 measurement without recordings of all ranks: wait attribution unavailable. First: "
            "06-np2-throughput-r3 with 1 of 2 ranks.",
        ),
        (
            {"segments": [SegmentSpec(status="failed", failure=Failure(reason="It hung."))]},
            "1 measurement failed and excluded. First: mnist at np=2 (06-np2-throughput-r3).",
        ),
    ],
)
def test_what_happened_in_one_pass(
    tmp_path: Path, fields: dict[str, object], sentence: str
) -> None:
    assert warnings(tmp_path, changed(**fields)) == [sentence]


@pytest.mark.heavy
def test_injected_faults_are_a_finding_and_no_damaged_recording(tmp_path: Path) -> None:
    finished = analysis_of(tmp_path / "run", sweep(TWO))
    ids = [one.id for one in finished.run.manifest.passes]
    notes = tuple(Note(NoteCode.FAULTS_INJECTED, id_, id_, value="x") for id_ in ids * 4)
    run = dataclasses.replace(finished.run, notes=notes)
    assert warnings_of(run, finished.launches, finished.scaling, ()) == ()


@pytest.mark.heavy
def test_an_early_end_leaves_its_reason_to_the_section(tmp_path: Path) -> None:
    cut = SegmentSpec(status="partial", failure=Failure(reason="Rank 1 was killed."))
    sentences = warnings(tmp_path, changed(segments=[cut]))
    assert sentences[0].endswith("First: 06-np2-throughput-r3.")


@pytest.mark.heavy
def test_oversubscribed_sizes(tmp_path: Path) -> None:
    (sentence,) = warnings(tmp_path, changed(oversubscribed=True))
    assert sentence.startswith("np=2: more ranks than cores or GPUs (oversubscribed)")


@pytest.mark.heavy
def test_few_steps(tmp_path: Path) -> None:
    (sentence,) = warnings(tmp_path, sweep(TWO, num_steps=12))
    assert sentence == (
        "6 launches with too few steady steps: intervals need 30, and an effective sample size of "
        "10. Worst: mnist np=1 (plain torch, 01-np1-throughput-r1), 12 steps, effective "
        "sample size 12."
    )


def noisy_sweep(step_ms: dict[int, np.ndarray]) -> list[PassSpec]:
    return [
        PassSpec(
            size=max(size, 1),
            repeat=repeat,
            segments=[
                SegmentSpec(
                    engine="horovod" if size else "torch",
                    parts_ms=typical_parts(times),
                    num_steps=len(times) - 2,
                )
            ],
        )
        for repeat in (1, 2, 3)
        for size, times in step_ms.items()
    ]


@pytest.mark.heavy
def test_correlated_steps_are_worth_few(tmp_path: Path) -> None:
    wave = 10 + np.sin(np.arange(62) * 2 * np.pi / 31)
    sentences = warnings(tmp_path, noisy_sweep({0: wave, 2: wave}))
    assert any("effective sample size" in sentence for sentence in sentences)


@pytest.mark.heavy
def test_drift(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rising = np.linspace(10, 11, 202) + 0.3 * autoregressive(rng, 202, 0.0)
    sentences = warnings(tmp_path, noisy_sweep({0: np.full(202, 10.0), 2: rising}))
    assert any(
        "with drift of the step time. Worst: mnist np=2" in sentence for sentence in sentences
    )


@pytest.mark.heavy
def test_no_steady_state(tmp_path: Path) -> None:
    falling = np.linspace(30, 10, 62)
    sentences = warnings(tmp_path, noisy_sweep({0: np.full(62, 10.0), 2: falling}))
    assert any("3 launches without a steady state" in sentence for sentence in sentences)


@pytest.mark.heavy
def test_one_launch(tmp_path: Path) -> None:
    once = sweep(TWO)[:2]
    assert warnings(tmp_path, once) == [
        "np=1, 2: one launch per cell. Differences between launches are unknown, and the "
        "intervals hold for this launch alone. Add --repeats."
    ]


@pytest.mark.slow
def test_wide_intervals(tmp_path: Path) -> None:
    passes = sweep(TWO)
    for one, factor in zip(passes[1::2], (0.8, 1.0, 1.3), strict=True):
        one.segments = [SegmentSpec(parts_ms=typical_parts(12.5 * factor))]
    (sentence,) = warnings(tmp_path, passes)
    start = "1 efficiency with a 95 % CI wider than ±10 % of the value (≈). Worst: mnist np=2"
    assert sentence.startswith(start)


@pytest.mark.parametrize(("high", "number"), [(-0.039, 1), (0.001, 0)])
def test_a_negative_trace_overhead_is_not_measurable(high: float, number: int) -> None:
    row = finished_analysis.cell(
        trace_overhead=-0.08, trace_overhead_low=-0.121, trace_overhead_high=high
    )
    done = finished_analysis.analysis([row])
    found = texts(warnings_of(done.run, done.launches, done.scaling, ()))
    negative = [warning for warning in found if "trace overhead" in warning]
    assert len(negative) == number
    if number:
        assert negative == [
            "1 cell with trace overhead not measurable: it is negative, -8.0 ± 4.1 % for "
            "resnet18 np=2. Something else slowed the passes without a timeline "
            "more, such as other processes."
        ]


@pytest.mark.heavy
@pytest.mark.parametrize(("engine", "missing"), [("tf-multiworker", []), ("tf-mirrored", [1])])
def test_what_a_strategy_waits_for_is_said_to_be_unseen(
    tmp_path: Path, engine: str, missing: list[int]
) -> None:
    passes = sweep(TWO)
    for one in passes:
        one.segments = [SegmentSpec(engine=engine, seen_inside=False)]
        one.missing_ranks = missing if one.size > 1 else []

    # A strategy of one process records once, and no rank is missing.
    (sentence,) = (
        text for text in warnings(tmp_path, passes) if "tf.dist" in text or "all r" in text
    )
    assert sentence.startswith("3 measurements under a strategy of tf.distribute, which reduces")
    assert sentence.endswith("no straggler. First: 02-np2-throughput-r1.")


@pytest.mark.heavy
def test_what_data_parallel_copies_is_said_to_be_unseen(tmp_path: Path) -> None:
    passes = sweep(TWO)
    for one in passes:
        if one.size > 1:
            one.segments = [SegmentSpec(engine="data-parallel", seen_inside=False)]
            one.missing_ranks = list(range(1, one.size))

    said = warnings(tmp_path, passes)
    (sentence,) = (text for text in said if "DataParallel" in text)
    assert "copies between GPUs within forward and backward: no blocked time" in sentence
    assert not any("all ranks" in text for text in said)


@pytest.mark.heavy
def test_what_a_step_of_a_parameter_server_is_and_what_runs_beside_it_is_said(
    tmp_path: Path,
) -> None:
    passes = sweep({1: 10.0, 2: 12.0})
    for one in passes:
        one.segments = [SegmentSpec(engine="tf-parameter-server", seen_inside=False)]
        one.missing_ranks = list(range(1, one.size))
        one.oversubscribed = True

    said = list(warnings(tmp_path, passes))
    (unseen,) = (text for text in said if "tf.dist" in text)
    # A single worker waits for its server, too.
    assert unseen.startswith(f"{len(passes)} measurements under a strategy of tf.distribute")
    assert unseen.endswith("a step is as many steps of any workers as there are workers.")
    (crowded,) = (text for text in said if "(oversubscribed)" in text)
    assert "its coordinator and parameter server count as ranks. Measured" in crowded
