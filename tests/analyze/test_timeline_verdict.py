from pathlib import Path

import pytest

from hvdprof import api

RECORDINGS = Path(__file__).parents[1] / "ingest" / "recordings"


def verdict(name):
    return api.analyze_files(api.load_run(RECORDINGS / name)).files[0].verdict


def test_a_rank_that_every_use_shows_late_is_named():
    told = verdict("04_gloo_straggler_rank1_cache_off.json")

    assert "Rank 1 is late" in told
    assert "How well the job scales is not in this file" in told


def test_a_file_without_every_rank_names_none():
    told = verdict("06_mpi_adasum.json")

    assert "No rank can be called late" in told
    assert "is late:" not in told


def test_a_short_file_gets_no_answer():
    assert verdict("17_gloo_process_sets_np3.json").startswith("Too short for an answer")


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDINGS.glob("1*.json")))
def test_every_recording_gets_a_sentence_that_ends(name):
    told = verdict(name)

    assert told.endswith(".")
    assert "nan" not in told.lower()
