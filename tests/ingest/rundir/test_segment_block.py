"""The engine of launches that the launcher of DDP has started."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hvdprof.api import analyze_run, compare, load_run
from hvdprof.api.run_entries import run_entry
from hvdprof.ingest.rundir.segment_block import with_seen_engines
from hvdprof.ingest.storage import parquet_cache
from hvdprof.model.run import RunAnalysis
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.run_lock import exclusive_run
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

SCRIPT = {"scaling": "weak", "num_threads": 1, "num_warmup_batches": 2, "script": {"command": []}}


def segment(pass_id: str, engine: str = "ddp", model: str = "train") -> dict[str, object]:
    return {"pass_id": pass_id, "segment": "main", "engine": engine, "model": model}


def waits(pass_id: str, *kinds: str) -> dict[str, object]:
    return {"pass_id": pass_id, "segment": "main", "kind": pd.Categorical(list(kinds))}


def engines(segments: list[dict[str, object]], *pieces: dict[str, object]) -> list[object]:
    return [block["engine"] for block in with_seen_engines(segments, pieces)]


def test_a_model_whose_ranks_gather_parameters_is_one_of_fsdp_at_every_size() -> None:
    segments = [segment("np1"), segment("np2"), segment("np2", model="other")]

    found = engines(segments, waits("np2", "user", "unshard_forward"))

    # Of both models of the pass, since they share its segment id; one rank alone gathers nothing.
    assert found == ["fsdp", "fsdp", "fsdp"]


def test_a_loop_with_collectives_of_its_own_alone_has_no_engine_of_ddp() -> None:
    segments = [segment("np1"), segment("np2"), segment("np2", model="other")]
    segments[2]["segment"] = "second"

    found = engines(segments, waits("np1", "user"), waits("np2", "user"))

    assert found == ["collectives", "collectives", "ddp"]


def test_other_waits_and_engines_stay_what_they_are() -> None:
    assert engines([segment("np2")], waits("np2", "user", "grad_reduce")) == ["ddp"]
    other = [segment("np2", "horovod"), segment("np1", "torch")]
    assert engines(other, waits("np2", "unshard_forward")) == ["horovod", "torch"]
    assert engines([segment("np2")], waits("np4", "unshard_forward")) == ["ddp"]


def open_run(folder: Path, *segments: SegmentSpec, ended: int = 0, **fields: Any) -> Path:
    """A run of one launch on two ranks that is in its segment number ``ended``."""
    folder.mkdir()
    with exclusive_run(folder) as writer:
        pass
    planned = [dataclasses.replace(one, status="planned") for one in segments]
    spec = PassSpec(size=2, segments=planned, status="running", with_end=False)
    values = {"settings": SCRIPT, "status": "running", "writer": writer} | fields
    write_run(folder, [spec], **values)
    for path in folder.glob("passes/*/recorder/*"):
        lines = list(map(json.loads, path.read_text().splitlines()))
        names = [one.id for one in segments]
        left, now = [], -1
        for line in lines:
            if line["kind"] == "segment":
                now = names.index(line["id"])
            if now < ended or (now == ended and line["kind"] != "segment_end"):
                left.append(json.dumps(line) + "\n")
        path.write_text("".join(left))
    return folder


def steps(number: int, model: str = "mnist") -> SegmentSpec:
    return SegmentSpec(model=model, num_steps=number, parts_ms=typical_parts(10, 1))


def analysis_of(folder: Path) -> RunAnalysis:
    return analyze_run(load_run(folder))


def statuses(analysis: RunAnalysis) -> list[str]:
    table = analysis.run.segments["status"].astype(str).tolist()
    of_manifest = [
        str(one.status) for record in analysis.run.manifest.passes for one in record.segments
    ]
    assert table == of_manifest
    return table


@pytest.mark.heavy
def test_a_killed_run_counts_its_steps_and_says_that_it_was_killed(tmp_path: Path) -> None:
    analysis = analysis_of(open_run(tmp_path / "run", steps(60)))
    assert statuses(analysis) == ["partial"]
    assert analysis.scaling["np"].tolist() == [2]
    assert analysis.verdict.sentence.startswith("Failed at np=2: hvdprof was killed. mnist on")
    assert [one.is_counted for one in analysis.failed] == [True]
    (warning,) = [text for text in analysis.warnings if text.startswith("The run was interr")]
    assert "hvdprof was killed" in warning and "hvdprof run --resume" in warning


@pytest.mark.heavy
def test_a_run_in_progress_answers_from_its_steps_so_far(tmp_path: Path) -> None:
    folder = open_run(tmp_path / "run", steps(60))
    with exclusive_run(folder):
        analysis = analysis_of(folder)
        assert run_entry(folder).status == "running"
    assert statuses(analysis) == ["running"]
    assert analysis.scaling["np"].tolist() == [2]
    assert "samples/s" in analysis.verdict.sentence
    assert analysis.verdict.caveat.startswith("Provisional: 0 of 1 launches have ended.")
    assert not analysis.failed
    assert run_entry(folder).status == "interrupted"


@pytest.mark.heavy
def test_too_few_steps_are_no_result(tmp_path: Path) -> None:
    folder = open_run(tmp_path / "run", steps(19))
    with exclusive_run(folder):
        in_progress = analysis_of(folder)
    assert statuses(in_progress) == ["planned"]
    assert in_progress.verdict.sentence == "Nothing is measured yet: the run is in progress."
    killed = analysis_of(folder)
    assert statuses(killed) == ["interrupted"]
    assert killed.scaling.empty
    assert any("1 of 1 measurements missing" in text for text in killed.warnings)


@pytest.mark.heavy
def test_what_all_ranks_ended_before_is_done(tmp_path: Path) -> None:
    segments = steps(60), steps(60, "resnet18"), steps(60, "vgg16")
    analysis = analysis_of(open_run(tmp_path / "run", *segments, ended=1))
    assert statuses(analysis) == ["done", "partial", "interrupted"]
    assert analysis.scaling["model"].tolist() == ["mnist", "resnet18"]


@pytest.mark.heavy
def test_a_rank_without_a_recording_leaves_no_result(tmp_path: Path) -> None:
    folder = open_run(tmp_path / "run", steps(60))
    RunPaths(folder).of_pass("01-np2-throughput-r1").recorder_file(1).unlink()
    assert statuses(analysis_of(folder)) == ["interrupted"]


@pytest.mark.heavy
def test_the_tables_of_the_cache_do_not_outlive_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_cache, "CACHE_FROM_BYTES", 0)
    folder = open_run(tmp_path / "run", steps(60))
    with exclusive_run(folder):
        assert statuses(analysis_of(folder)) == ["running"]
    assert statuses(analysis_of(folder)) == ["partial"]


@pytest.mark.heavy
def test_a_comparison_says_which_side_was_killed(tmp_path: Path) -> None:
    sides = [analysis_of(open_run(tmp_path / name, steps(60))) for name in "ab"]
    found = compare(*sides)
    assert not found.cells.empty
    note = "a was interrupted, as hvdprof was killed: what is measured so far is compared."
    assert note in found.notes
