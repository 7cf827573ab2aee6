"""A light recording through every front end: the verdict of the full one, or one clear message."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from hvdprof.analyze.compare.setting_diffs import setting_diffs
from hvdprof.analyze.pipeline import analyze_run
from hvdprof.analyze.steps.measured_launches import full_command, is_light
from hvdprof.api import load_run
from hvdprof.cli.main import build_app
from hvdprof.dashboards.app import PAGES
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.shell import content
from hvdprof.dashboards.view import View
from hvdprof.errors import HvdprofError
from hvdprof.model.run import RunAnalysis
from tests.builders.light_recording import made_light
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

NUM_STEPS, WARMUP, RANKS, LATE_RANK = 320, 2, 4, 2
STEP_MS, LATE_MS, TRANSFER_MS = 40.0, 4.0, 6.0
COMMAND = ["hvdprof", "run", "--light", "--np", "1,4", "--", "python", "train.py"]


def coupled_parts(from_step: int = 0, late_ms: float = LATE_MS) -> dict[str, NDArray[np.float64]]:
    """Steps of about 40 ms, all ranks released together; one rank is late in forward."""
    rng = np.random.default_rng(3)
    shape = (RANKS, WARMUP + NUM_STEPS)
    parts = {
        name: np.broadcast_to(np.asarray(length, float), shape)
        * (1 + 0.02 * rng.standard_normal(shape))
        for name, length in typical_parts(STEP_MS).items()
    }
    parts["forward"][LATE_RANK, WARMUP + from_step :] += late_ms
    before = parts["data"] + parts["forward"] + parts["backward"]
    after = parts["optimizer"] + parts["outside"]
    arrived = before + np.concatenate([np.zeros((RANKS, 1)), after[:, :-1]], axis=1)
    parts["blocked"] = arrived.max(axis=0) - arrived + TRANSFER_MS
    return parts


def passes(from_step: int = 0, late_ms: float = LATE_MS, **values: object) -> list[PassSpec]:
    alone = SegmentSpec(engine="torch", num_steps=NUM_STEPS, parts_ms=typical_parts(0.8 * STEP_MS))
    late = SegmentSpec(num_steps=NUM_STEPS, parts_ms=coupled_parts(from_step, late_ms))
    return [PassSpec(segments=[alone]), PassSpec(size=RANKS, segments=[late], **values)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("runs")
    full = write_run(parent / "full", passes())
    shutil.copytree(full, parent / "light")
    made_light(parent / "light")
    return parent


@pytest.fixture(scope="module")
def both(folder: Path) -> tuple[RunAnalysis, RunAnalysis]:
    full, light = (analyze_run(load_run(folder / name)) for name in ("full", "light"))
    return full, light


@pytest.mark.heavy
def test_throughput_efficiency_and_parts_are_those_of_the_full_recording(
    both: tuple[RunAnalysis, RunAnalysis],
) -> None:
    full, light = (one.scaling for one in both)
    for name in ("samples_per_s", "efficiency"):
        assert light[name].tolist() == pytest.approx(full[name].tolist(), rel=2e-3)
    assert light["num_steps"].tolist() == full["num_steps"].tolist() == [NUM_STEPS] * 2
    assert light["blocked_ns"].iloc[1] == pytest.approx(full["blocked_ns"].iloc[1], rel=2e-2)
    # Percentiles of windows are not those of steps.
    assert light["step_time_p95_ns"].isna().all()


@pytest.mark.heavy
def test_the_straggler_has_the_same_rank_phase_and_cost(
    both: tuple[RunAnalysis, RunAnalysis],
) -> None:
    for analysis in both:
        named = analysis.stragglers.set_index("rank").loc[LATE_RANK]
        assert (named["pattern"], named["phase"]) == ("persistent", "forward")
        assert named["lateness_ns"] == pytest.approx(LATE_MS * 1e6, rel=0.05)
        assert named["cost_ns"] == pytest.approx(LATE_MS * 1e6, rel=0.2)
        others = analysis.stragglers[analysis.stragglers["rank"] != LATE_RANK]
        assert (others["pattern"] == "none").all()
    full, light = (one.waterfall.set_index("term")["time_ns"] for one in both)
    for term in ("straggler", "exposed-transfer", "compute-inflation"):
        assert light[term] == pytest.approx(full[term], abs=8e5)


@pytest.mark.heavy
def test_a_rank_that_becomes_late_is_late_from_about_that_step_on(tmp_path: Path) -> None:
    run = load_run(made_light(write_run(tmp_path, passes(from_step=190, late_ms=12.0))))
    named = analyze_run(run).stragglers.set_index("rank").loc[LATE_RANK]
    assert (named["pattern"], named["phase"]) == ("from-step", "forward")
    assert named["first_step"] == pytest.approx(190, abs=16)


@pytest.mark.heavy
def test_pauses_show_in_the_windows_that_hold_them(tmp_path: Path) -> None:
    parts, pause_ms = coupled_parts(late_ms=0.0), 900.0
    pausing = np.arange(WARMUP + NUM_STEPS) % 80 == 40
    parts["outside"][:, pausing] += pause_ms
    segments = [SegmentSpec(num_steps=NUM_STEPS, parts_ms=parts)]
    run = load_run(made_light(write_run(tmp_path, [PassSpec(size=RANKS, segments=segments)])))
    analysis = analyze_run(run)
    (found,) = analysis.findings[analysis.findings["id"] == "stalled-steps"].to_dict("records")
    assert "of the windows, for" in found["evidence"]
    assert "per step" in found["evidence"]
    lost_ns = found["cost_ns"]
    assert lost_ns == pytest.approx(pause_ms * 1e6 * pausing.sum() / NUM_STEPS, rel=0.3)
    windows = run.windows
    longest = windows.loc[windows["step_max_ns"] > 900e6]
    assert set(longest["longest_step"] % 80) == {40}


@pytest.mark.heavy
def test_clocks_of_two_hosts_are_aligned_at_both_ends_of_a_window(tmp_path: Path) -> None:
    hosts = ["a", "a", "b", "b"]
    drifting = passes(hosts=hosts, offset_ms=[0, 0, 7, 7], drift_ms=[0, 0, 3, 3])
    analysis = analyze_run(load_run(made_light(write_run(tmp_path, drifting))))
    named = analysis.stragglers.set_index("rank").loc[LATE_RANK]
    assert (named["pattern"], named["phase"]) == ("persistent", "forward")
    assert named["lateness_ns"] == pytest.approx(LATE_MS * 1e6, rel=0.05)
    transfer = analysis.waterfall.set_index("term")["time_ns"]["exposed-transfer"]
    assert transfer == pytest.approx(TRANSFER_MS * 1e6, rel=0.15)


@pytest.mark.heavy
def test_the_verdict_says_what_a_light_recording_cannot_say_and_how_to_get_it(
    both: tuple[RunAnalysis, RunAnalysis],
) -> None:
    full, light = both
    assert not is_light(full.run)
    assert is_light(light.run)
    assert "Light recording" not in full.verdict.caveat
    assert light.verdict.sentence.split(".")[0] == full.verdict.sentence.split(".")[0]
    assert "jitter within a window counts as exposed transfer" in light.verdict.caveat
    assert "single steps, gradients and collectives" in light.verdict.caveat
    assert f"`{full_command(light.run)}`" in light.verdict.caveat


def test_exposed_transfer_of_windows_may_be_jitter(
    both: tuple[RunAnalysis, RunAnalysis],
) -> None:
    ids = ("gloo-transfer", "shared-memory-transfer", "exposed-transfer")
    full, found = (
        next(row for row in run.findings.to_dict("records") if row["id"] in ids) for run in both
    )
    assert "jitter" not in full["title"]
    assert found["title"] == "Exposed transfer or jitter"
    assert found["confidence"] == "possible"
    # Not what helps against transfer alone.
    command = full_command(both[1].run)
    assert found["action"] == f"Record single steps, which separates them: run `{command}`."
    assert found["cost_ns"] == pytest.approx(full["cost_ns"], rel=0.1)


@pytest.mark.heavy
def test_the_command_of_a_full_recording_is_that_of_the_run_without_the_flag(
    tmp_path: Path,
) -> None:
    run = load_run(write_run(tmp_path, passes(), command=COMMAND))
    assert full_command(run) == "hvdprof run --np 1,4 -- python train.py"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("given", "full"),
    [
        (
            "run --light -o runs/a -q -- python train.py -o x --light",
            "run -q -- python train.py -o x --light",
        ),
        ("run -o runs/a --light torchrun train.py -o x", "run torchrun train.py -o x"),
        ("bench --light --np 1,2 --output=runs/a", "bench --np 1,2"),
        ("bench --output runs/a --light --repeats 1", "bench --repeats 1"),
    ],
)
def test_that_command_writes_into_a_new_folder(tmp_path: Path, given: str, full: str) -> None:
    run = load_run(write_run(tmp_path, passes(), command=["hvdprof", *given.split()]))
    assert full_command(run) == f"hvdprof {full}"


def run_cli(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(build_app(), [str(one) for one in arguments])
    if isinstance(result.exception, HvdprofError):
        return int(result.exception.exit_code), result.exception.message
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.mark.slow
def test_every_command_works_or_ends_in_one_message(folder: Path, tmp_path: Path) -> None:
    light = folder / "light"
    refused = {
        "predict": (["predict", light, "--np", "8"], "light recordings"),
        "export": (["export", light, "-o", tmp_path / "a.json"], "is a light recording"),
        "chakra": (
            ["export", light, "--format", "chakra", "-o", tmp_path / "b"],
            "is a light recording",
        ),
    }
    for arguments, message in refused.values():
        code, text = run_cli(*arguments)
        assert code not in (0, 70)
        assert message in text
    works = {
        "analyze": ["analyze", light],
        "json": ["analyze", light, "--format", "json"],
        "html": ["report", light, "-o", tmp_path / "a.html"],
        "markdown": ["report", light, "-o", tmp_path / "a.md"],
        "compare": ["compare", light, light],
        "convert": ["convert", light, "-o", tmp_path / "tables"],
        "files": ["analyze", *sorted(light.glob("passes/02*/recorder/*.jsonl"))],
    }
    for name, arguments in works.items():
        code, text = run_cli(*arguments)
        assert code in (0, 2 if name == "compare" else 0), (name, text)
        assert " nan" not in text, name


@pytest.mark.heavy
def test_windows_can_be_queried(folder: Path) -> None:
    query = (
        "select sum(num_steps) as all_steps, min(step_median_ns) as least, "
        "count(distinct rank) as ranks from windows where not warmup and pass_id like '02%'"
    )
    code, text = run_cli("sql", folder / "light", query, "--format", "json")
    assert code == 0
    assert str(RANKS * NUM_STEPS) in text


@pytest.mark.heavy
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.TITLE)
def test_every_page_of_the_dashboard_shows_the_run(folder: Path, page: object) -> None:
    runs = RunStore([folder / "light"])
    shown = str(content(page, runs, View(page.PATH, {"run": "light"})))  # type: ignore[attr-defined]
    assert "bug in hvdprof" not in shown
    if page.PATH == "/timeline":  # type: ignore[attr-defined]
        assert "A light recording holds windows of steps" in shown


@pytest.mark.heavy
def test_light_and_full_runs_are_not_compared_and_older_manifests_are(folder: Path) -> None:
    manifest = load_run(folder / "full").manifest
    plain, light = (
        dataclasses.replace(manifest, options=manifest.options | {"light": value})
        for value in (False, True)
    )
    assert setting_diffs(manifest, plain).empty
    (row,) = setting_diffs(plain, light).to_dict("records")
    assert (row["name"], row["matters"]) == ("light", True)
