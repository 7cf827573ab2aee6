from dataclasses import replace

import pytest

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.analyze.verdict.caveats import carried_caveats, failure_caveat
from hvdprof.analyze.verdict.failures import failure_sentence
from hvdprof.api import load_run
from hvdprof.model.causes import PAUSE, STRAGGLER
from hvdprof.model.notes import Note, NoteCode, texts
from hvdprof.model.run import FailedSegment, Verdict, VerdictParts
from hvdprof.model.tables.waterfall_tables import WATERFALL
from tests.builders.analysis import sweep
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import analysis, pass_record, segment
from tests.builders.finished_analysis import manifest as finished_manifest
from tests.builders.finished_analysis import run as finished_run
from tests.builders.finished_analysis import verdict as finished_verdict
from tests.builders.recorder_lines import host_of
from tests.builders.run_directory import write_run

NAN = float("nan")
ANSWER = Verdict("resnet18 on 2 ranks: 394 samples/s.", "resnet18", 2, NAN, NAN, NAN, "", NAN)
FAILED = FailedSegment(
    pass_id="01",
    model="resnet18",
    np=2,
    engine="ddp",
    compression="none",
    reduction="average",
    reason="rank 1 raised ValueError: label 11 out of range",
    rank=1,
    exit_code=1,
    signal=None,
    lines=(),
    is_counted=True,
)


UNCOUNTED = replace(FAILED, is_counted=False)


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        ([UNCOUNTED], "1 of 28 measurements failed and is excluded: see Failed."),
        ([UNCOUNTED] * 2, "2 of 28 measurements failed and are excluded: see Failed."),
        (
            [FAILED],
            "1 of 28 measurements ended early, and only steps before that count: see Failed.",
        ),
        (
            [UNCOUNTED, FAILED],
            "1 of 28 measurements failed and is excluded; 1 of 28 ended early, and only steps "
            "before that count: see Failed.",
        ),
    ],
)
def test_the_caveat_counts_and_leaves_the_reasons_to_their_section(failed, expected):
    assert texts(failure_caveat(failed, ANSWER, 28)) == (expected,)


def test_a_run_without_a_failure_or_without_a_number_needs_no_caveat():
    assert not [*failure_caveat([], ANSWER, 3)]
    assert not [*failure_caveat([FAILED], replace(ANSWER, model=""), 3)]


CELL = ("resnet18", 2, "ddp")
LEAD = "Failed at np=2: rank 1 raised ValueError: label 11 out of range."


def test_a_crash_of_the_judged_job_leads_and_the_caveat_does_not_repeat_it():
    led = replace(ANSWER, engine="ddp", parts=VerdictParts(lead=LEAD))

    assert failure_sentence([FAILED], *CELL) == LEAD
    (caveat,) = failure_caveat([FAILED], led, 3)
    assert caveat.text == "Only steps before the failure count."
    elsewhere = replace(led, parts=VerdictParts(lead=LEAD.replace("np=2", "np=4")))
    assert not [*failure_caveat([replace(UNCOUNTED, np=4)], elsewhere, 3)]


@pytest.mark.parametrize(
    ("change", "leads"),
    [
        ({"np": 4, "is_counted": False}, True),
        ({"is_counted": False}, False),
        ({"np": 1}, False),
        ({"model": "mnist"}, False),
        ({"compression": "fp16"}, False),
    ],
)
def test_failures_elsewhere_are_a_caveat(change, leads):
    assert bool(failure_sentence([replace(FAILED, **change)], *CELL)) == leads


def test_what_the_user_interrupted_has_not_failed():
    interrupted = replace(FAILED, reason="it was interrupted")
    assert failure_sentence([interrupted], *CELL) == "Interrupted at np=2."


def test_a_reason_that_prints_a_tensor_is_cut():
    long = failure_sentence([replace(FAILED, reason="x" * 2_000)], *CELL)

    assert len(long) < 300
    assert long.endswith(" ….")


def caveat_beside(folder, other_cpu_cores, num_cores=2):
    passes = [replace(one, other_cpu_cores=other_cpu_cores) for one in sweep({0: 10.0, 2: 15.0})]
    write_run(folder, passes, hosts=[host_of("node1", num_cores)])
    return analyze_run(load_run(folder)).verdict.caveat


@pytest.mark.slow
def test_other_processes_on_the_machine_are_a_caveat_of_the_verdict(tmp_path):
    assert caveat_beside(tmp_path / "crowded", 1.7).startswith(
        "Other processes kept up to 1.7 of 2 cores busy. Measure again without them before acting."
    )
    assert "Other processes" not in caveat_beside(tmp_path / "quiet", 0.05)


@pytest.mark.heavy
def test_a_small_load_in_one_of_fourteen_passes_is_a_note_and_no_fix(tmp_path):
    alone, two = sweep({0: 10.0, 2: 14.06})[:2]
    passes = [replace(alone, repeat=repeat, other_cpu_cores=0.02) for repeat in range(1, 14)]
    passes.append(replace(two, other_cpu_cores=0.24))
    write_run(tmp_path, passes, hosts=[host_of("node1", 2)])
    found = analyze_run(load_run(tmp_path))
    assert "Largest loss: compute slowdown" in found.verdict.sentence
    assert "(26.0 %); fix: run fewer ranks per host than it has cores" in found.verdict.sentence
    assert "ther processes" not in found.verdict.sentence + found.verdict.caveat
    (busy,) = (note.text for note in found.warning_notes if note.code == NoteCode.OTHER_LOAD)
    assert busy.startswith(
        "Other processes kept cores busy during 1 of 14 passes, up to 0.2 cores in "
    )


@pytest.mark.heavy
def test_spare_cores_need_no_caveat_beside(tmp_path):
    assert "Other processes" not in caveat_beside(tmp_path, 1.7, num_cores=64)


def pauses(*rows):
    """WATERFALL of pauses between steps, every 25 steps on 2 ranks."""
    common = {"np": 2, "phase": "outside", "pattern": "periodic", "period_steps": 25.0}
    return {WATERFALL.name: declared_rows(WATERFALL, *(common | row for row in rows))}


def test_warnings_on_all_numbers_and_pauses_are_carried():
    notes = (
        Note(NoteCode.NOT_PINNED, "Not pinned."),
        Note(NoteCode.OTHER_LOAD, "Others kept cores busy."),
        Note(NoteCode.FEW_STEPS, "Too few steps."),
    )
    rows = pauses({"term": PAUSE, "share": 0.12}, {"term": STRAGGLER, "share": 0.3, "ranks": "1"})

    found = carried_caveats(analysis(warning_notes=notes, derived=rows))

    assert texts(found) == (
        "Others kept cores busy.",
        "Too few steps.",
        "All ranks pause every 25 steps, between steps (12.0 % of the step on 2 ranks): step times "
        "contain these pauses.",
    )


def test_a_run_in_progress_is_carried_and_other_caveats_of_its_verdict_are_not():
    own = (
        Note(NoteCode.PROVISIONAL, "Provisional: 3 of 9 launches have ended.", number=3),
        Note(NoteCode.OTHER_LOAD, "Others kept cores busy. Measure again."),
    )

    (found,) = carried_caveats(analysis(verdict=finished_verdict(caveats=own)))

    assert found == own[0]


def test_short_pauses_are_not_worth_a_caveat():
    rows = pauses({"term": PAUSE, "share": 0.01})

    assert carried_caveats(analysis(derived=rows)) == ()


def test_a_machine_that_is_too_busy_is_said_once():
    records = [
        pass_record("p", [segment("s")], mode="throughput", other_cpu_cores=1.5),
    ]
    busy = finished_run(manifest=finished_manifest(passes=records))
    warned = Note(NoteCode.OTHER_LOAD, "Others kept cores busy.")

    (found,) = carried_caveats(
        analysis(run=busy, verdict=finished_verdict(is_too_busy=True), warning_notes=(warned,))
    )

    assert found.code is NoteCode.TOO_BUSY
    assert "--wait-for-quiet 10m" in found.value
    assert found.text.startswith("The machine was too busy to judge: ")
