"""Ranks delayed by known times: the verdict names them, or says that it names none."""

import random

import pytest

from hvdprof import api
from hvdprof.ingest.storage import parquet_cache
from hvdprof.ingest.timeline import stream
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.timeline_rounds import submit, write_rounds
from tests.builders.timeline_writer import TimelineWriter


def page_of(tmp_path, writer, name="timeline.json"):
    path = tmp_path / name
    path.write_text(writer.text())
    return api.analyze_files(api.load_run(path)).files[0]


def verdict_of(tmp_path, delays, num_ranks, **options):
    writer = write_rounds(TimelineWriter(), delays, num_ranks=num_ranks, **options)
    return page_of(tmp_path, writer).verdict


@pytest.mark.heavy
def test_a_rank_late_in_start_up_alone_is_no_straggler(tmp_path):
    delays = [{0: 900}] * 6 + [{}] * 34
    verdict = verdict_of(tmp_path, delays, 4)
    assert "No straggler in 34 steady steps" in verdict
    assert "In start-up (6 steps), rank 0 is last." in verdict


@pytest.mark.heavy
def test_a_rank_late_in_steady_steps_is_named_although_start_up_had_another(tmp_path):
    delays = [{0: 2000}] * 6 + [{3: 20}] * 38
    verdict = verdict_of(tmp_path, delays, 4)
    assert "Rank 3 submits last in 38 of 38 steady steps; the others wait 20.0 ms per" in verdict
    assert verdict.endswith("In start-up (6 steps), rank 0 is last.")


@pytest.mark.heavy
def test_start_up_without_a_rank_is_said(tmp_path):
    compute = [900, 800, 850, 870] + [50] * 30
    verdict = verdict_of(tmp_path, [{}] * 34, 4, compute_ms=compute)
    assert "In start-up (3 steps), no single rank is last." in verdict


@pytest.mark.heavy
def test_the_late_rank_that_changes_midway_is_named_for_either_part(tmp_path):
    delays = [{}] + [{2: 30}] * 20 + [{1: 30}] * 20
    verdict = verdict_of(tmp_path, delays, 4)
    assert (
        "The straggler changes: rank 2 submits last before step 21, rank 1 from there on" in verdict
    )


@pytest.mark.heavy
def test_a_rank_late_in_a_part_of_the_steps_is_named_with_that_part(tmp_path):
    delays = [{}] * 20 + [{5: 60}] * 12 + [{}] * 20
    verdict = verdict_of(tmp_path, delays, 8)
    assert "Rank 5 submits last in 12 of 51 steady steps" in verdict
    assert "all between steps 20 and 31" in verdict


@pytest.mark.heavy
def test_a_file_of_first_uses_alone_names_the_rank_they_wait_for(tmp_path):
    verdict = verdict_of(tmp_path, [{7: 850}], 8)
    assert verdict == (
        "Too short to judge: 0 executions after warm-up, fewer than 5. "
        "First uses wait 850 ms for rank 7."
    )


@pytest.mark.heavy
def test_ranks_of_a_process_set_are_not_named(tmp_path):
    writer = write_rounds(TimelineWriter(), [{}] * 3, num_ranks=4)
    write_rounds(writer, [{1: 60}] * 30, num_ranks=2, tensors=["allreduce.of_set"])
    assert "Rank" not in page_of(tmp_path, writer).verdict


@pytest.mark.heavy
def test_half_of_the_steps_are_no_start_up(tmp_path):
    verdict = verdict_of(tmp_path, [{6: 150}] * 28 + [{}] * 29, 8)
    assert "start-up" not in verdict
    assert "Rank 6 submits last in 27 of 56 steady steps; the others wait 72.3 ms" in verdict
    assert "recorded time), all between steps 1 and 27." in verdict


@pytest.mark.heavy
def test_one_slow_step_names_no_straggler(tmp_path):
    delays = [{}] * 20 + [{2: 5000}] + [{}] * 19
    verdict = verdict_of(tmp_path, delays, 4)
    assert "No persistent straggler: rank 2 submits last in 1 of 39 steady steps" in verdict


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(5))
def test_ranks_that_are_late_by_chance_are_not_named(tmp_path, seed):
    chance = random.Random(seed)
    delays = [{rank: chance.uniform(0, 40) for rank in range(8)} for _ in range(60)]
    assert "straggler: rank" in verdict_of(tmp_path, delays, 8)


@pytest.mark.slow
def test_one_of_512_ranks_is_named(tmp_path):
    delays = [{}] + [{347: 25}] * 30
    assert "Rank 347 submits last in 30 of 30 steady" in verdict_of(tmp_path, delays, 512)


@pytest.mark.heavy
def test_a_job_of_one_rank_has_no_straggler_and_no_negotiation(tmp_path):
    page = page_of(tmp_path, write_rounds(TimelineWriter(), [{}] * 20, num_ranks=1))
    assert "straggler" not in page.verdict and "negotiation" not in page.verdict
    assert "The file names rank 0 alone" in page.caveat


@pytest.mark.heavy
def test_ranks_hidden_by_the_cache_are_not_named(tmp_path):
    delays = [{0: 900}] * 3 + [{1: 30}] * 40
    verdict = verdict_of(tmp_path, delays, 2, ticks=False)
    assert "Rank" not in verdict


@pytest.mark.heavy
def test_two_late_ranks_together_are_no_single_straggler_but_negotiation_is_said(tmp_path):
    verdict = verdict_of(tmp_path, [{}] + [{2: 60, 3: 60}] * 30, 4)
    assert "No straggler in 30 steady steps: no rank is last by more than a cycle" in verdict
    assert "negotiation for 50.7 %" in verdict


@pytest.mark.heavy
def test_without_steps_the_executions_name_the_straggler(tmp_path):
    writer = TimelineWriter()
    write_rounds(writer, [{}], num_ranks=4, tensors=["allreduce.a", "allreduce.b"])
    for number in range(60):
        name = "allreduce.b" if number % 7 < 2 else "allreduce.a"
        write_rounds(writer, [{2: 40}], num_ranks=4, tensors=[name])
    verdict = page_of(tmp_path, writer).verdict
    assert verdict.startswith("After warm-up, collectives run for ")
    assert (
        "Rank 2 submits last in 60 of 60 executions after warm-up; the others wait 40.0 ms"
        in verdict
    )


@pytest.mark.heavy
def test_payload_and_bandwidth_of_a_step_are_facts(tmp_path):
    page = page_of(tmp_path, write_rounds(TimelineWriter(), [{}] * 20, num_ranks=4))
    facts = {fact.name: fact.value for fact in page.facts}
    assert facts["payload_bytes_per_step"] == 8000
    assert facts["payload_bytes_per_s"] == pytest.approx(8000 / 0.010, rel=0.01)
    assert "(800 kB/s)" in page.verdict or "(799 kB/s)" in page.verdict


@pytest.mark.heavy
def test_a_hang_comes_first_with_the_ranks_that_did_not_submit(tmp_path):
    writer = write_rounds(TimelineWriter(), [{}] * 20, num_ranks=4)
    submit(writer, [0, 2])
    writer.now_us += 6_300_000
    writer.cycle()
    page = page_of(tmp_path, writer)
    assert page.verdict.startswith(
        "Ranks 1 and 3 have not submitted 2 tensors for 6.30 s until the end of the file."
    )
    assert page.caveat.startswith("Pending negotiations are a hang, unless")
    (pending,) = (fact for fact in page.facts if fact.name == "num_pending")
    assert pending.text == "2 tensors for 6.30 s, submitted by ranks 0 and 2, not by ranks 1 and 3"


@pytest.mark.heavy
def test_a_file_that_ends_in_a_short_negotiation_gets_a_caveat_alone(tmp_path):
    writer = submit(write_rounds(TimelineWriter(), [{}] * 20, num_ranks=4), [0, 2, 3])
    page = page_of(tmp_path, writer)
    assert page.verdict.startswith("In 19 steady steps")
    assert "At the end of the file, rank 1 has not submitted 2 tensors: the" in page.caveat


@pytest.mark.heavy
def test_times_that_fall_back_give_no_verdict(tmp_path):
    writer = write_rounds(TimelineWriter(), [{}] * 20, num_ranks=2)
    writer.now_us -= 700_000
    page = page_of(tmp_path, write_rounds(writer, [{}] * 20, num_ranks=2))
    assert page.verdict.startswith("No verdict: times fall back at 1 place")


@pytest.mark.heavy
def test_one_stall_behind_the_cache_is_stated(tmp_path):
    writer = write_rounds(TimelineWriter(), [{}] * 20, num_ranks=2, ticks=False)
    write_rounds(writer, [{1: 25_000}], num_ranks=2)
    write_rounds(writer, [{}] * 9, num_ranks=2, compute_ms=50)
    verdict = page_of(tmp_path, writer).verdict
    assert "Stall in step 20: tensors wait 25.0 s for rank 1, 93." in verdict


@pytest.mark.heavy
def test_four_late_steps_of_one_in_two_ranks_are_chance(tmp_path):
    delays = [{}] + [{1: 40} if number % 5 == 0 else {} for number in range(20)]
    verdict = verdict_of(tmp_path, delays, 2)
    assert "No persistent straggler: rank 1 submits last in 4 of 20 steady steps" in verdict


@pytest.mark.heavy
def test_without_steps_start_up_alone_names_no_straggler(tmp_path):
    writer = TimelineWriter()
    write_rounds(writer, [{}], num_ranks=4, tensors=["allreduce.a", "allreduce.b"])
    for number in range(60):
        name = "allreduce.b" if number % 7 < 2 else "allreduce.a"
        delays = {0: 300} if number < 20 else {}
        write_rounds(writer, [delays], num_ranks=4, tensors=[name])
    verdict = page_of(tmp_path, writer).verdict
    assert "No persistent straggler: rank 0 submits last in 20 of 60 executions" in verdict
    assert verdict.endswith("but not in the second half.")


@pytest.mark.heavy
def test_a_file_cut_within_a_negotiation_still_names_every_rank(tmp_path):
    writer = write_rounds(TimelineWriter(), [{}] + [{3: 40}] * 20, num_ranks=4)
    page = page_of(tmp_path, submit(writer, []))
    assert "Rank 3 submits last in 20 of 20 steady steps" in page.verdict


@pytest.mark.heavy
def test_ranks_that_submitted_different_tensors_wait_for_each_other(tmp_path):
    writer = write_rounds(TimelineWriter(), [{}] * 20, num_ranks=4)
    submit(writer, [0, 1], tensors=["allreduce.a"])
    submit(writer, [2, 3], tensors=["allreduce.b"])
    writer.now_us += 90_000_000
    writer.cycle()
    assert page_of(tmp_path, writer).verdict.startswith(
        "Ranks 2 and 3 have not submitted 1 tensor and ranks 0 and 1 have not submitted 1 tensor "
        "for 90.0 s until the end of the file: they wait for each other."
    )


@pytest.mark.heavy
def test_a_hang_of_most_of_512_ranks_is_short_to_read(tmp_path):
    writer = submit(write_rounds(TimelineWriter(), [{}] * 20, num_ranks=512), [0])
    writer.now_us += 90_000_000
    writer.cycle()
    verdict = page_of(tmp_path, writer).verdict
    assert verdict.startswith("Ranks 1-511 have not submitted 2 tensors for 90.0 s until")


@pytest.mark.heavy
def test_a_long_pause_between_steps_is_excluded(tmp_path):
    writer = write_rounds(TimelineWriter(), [{}] * 20, num_ranks=4)
    writer.now_us += 3_600_000_000
    page = page_of(tmp_path, write_rounds(writer, [{}] * 20, num_ranks=4))
    assert "collectives run for 17." in page.verdict
    assert "Pauses between steps (60 min 00 s in all) are excluded." in page.caveat


@pytest.mark.heavy
def test_two_recordings_in_one_file_give_no_verdict(tmp_path):
    texts = [
        write_rounds(TimelineWriter(epoch_us=epoch_us), [{}] * 20, num_ranks=2).text()
        for epoch_us in (1_700_000_000_000_000, 1_700_000_100_000_000)
    ]
    path = tmp_path / "both.json"
    path.write_text("\n".join(texts))
    page = api.analyze_files(api.load_run(path)).files[0]
    assert page.verdict == "No verdict: the file holds 2 recordings, one behind the other."


@pytest.mark.heavy
@pytest.mark.parametrize("hangs", [True, False])
def test_a_file_in_the_cache_gets_the_same_page(tmp_path, monkeypatch, hangs):
    pytest.importorskip("numba", reason="reading in parts is compiled")
    writer = write_rounds(TimelineWriter(), [{0: 900}] * 6 + [{3: 20}] * 60, num_ranks=4)
    if hangs:
        submit(writer, [0, 1])
        writer.now_us += 20_000_000
        writer.cycle()
    whole = page_of(tmp_path, writer)
    monkeypatch.setattr(parquet_cache, "CACHE_FROM_BYTES", 1)
    monkeypatch.setattr(stream, "ROWS_AT_ONCE", 64)
    cached = page_of(tmp_path, writer)
    assert (cached.verdict, cached.caveat, cached.facts) == (
        whole.verdict,
        whole.caveat,
        whole.facts,
    )
    assert ("Ranks 2 and 3 have not submitted 2 tensors" in cached.verdict) == hangs


@pytest.mark.heavy
@needs_corpus
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fake120MB_2workers", "No straggler: "),
        ("fake120MB_4workers", "No straggler: "),
        ("fake120MB_16workers", "No straggler: "),
        (
            "fake120MB_32workers",
            "Rank 9 submits last in 17 of 19 steady steps; the others wait 57.0 ms",
        ),
    ],
)
def test_recordings_with_a_slow_start_up_state_both(name, sentence):
    path = CORPUS / "horovod_timelines" / f"tflogs_{name}.json"
    verdict = api.analyze_files(api.load_run(path)).files[0].verdict
    assert sentence in verdict
    assert "In start-up (6 steps), rank 0 is last." in verdict


@pytest.mark.heavy
@needs_corpus
@pytest.mark.parametrize(("name", "share"), [("mpi_12rank", "67.5"), ("comm831_32workers", "22.4")])
def test_the_share_of_negotiation_is_that_of_an_independent_parse(name, share):
    path = CORPUS / "horovod_timelines" / f"tflogs_{name}.json"
    verdict = api.analyze_files(api.load_run(path)).files[0].verdict
    assert f"negotiation for {share} %" in verdict
