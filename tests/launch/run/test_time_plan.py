from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.errors import UsageError
from hvdprof.launch.plan.time_budget import TimePlan, fit_budget, time_plan
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders.bench_settings import MNIST, RESNET, bench_settings
from tests.launch.run.test_repeats import manifest_of


def _manifest(**changes: object) -> Manifest:
    settings = bench_settings(
        **{
            "models": (MNIST, RESNET),
            "repeats": 6,
            "precision": 0.05,
            "max_seconds": 1.5,
            "num_steps": None,
        }
        | changes
    )
    return manifest_of(settings)


def _ended(manifest: Manifest, seconds: float) -> Manifest:
    for record in manifest.passes:
        record.status, record.duration_s = Status.DONE, seconds
    return manifest


def _write(manifest: Manifest, folder: Path) -> None:
    folder.mkdir(parents=True)
    manifest.write(RunPaths(folder))


def test_without_an_earlier_run_a_start_is_assumed(tmp_path: Path) -> None:
    plan = time_plan(_manifest(), tmp_path / "runs")
    assert plan == TimePlan(
        planned_s=pytest.approx(4 * 9.0),
        repeat_s=pytest.approx(3 * 9.0),
        basis="no earlier run of this kind; corrected after the first launches",
    )
    assert plan.shortest_useful_s == 65


def test_steps_of_unknown_length_have_no_estimate(tmp_path: Path) -> None:
    plan = time_plan(_manifest(max_seconds=None, num_steps=50), tmp_path)
    assert (plan.planned_s, plan.repeat_s) == (None, None)
    assert plan.basis == "unknown before the first launch"
    assert plan.shortest_useful_s is None


def test_the_newest_run_of_the_same_kind_is_the_basis(tmp_path: Path) -> None:
    _write(_ended(_manifest(), 99.0), tmp_path / "1-old")
    _write(_ended(_manifest(), 12.0), tmp_path / "2-alike")
    _write(_ended(_manifest(num_threads=2), 99.0), tmp_path / "3-other")
    _write(_manifest(), tmp_path / "4-not-begun")
    (tmp_path / "5-damaged").mkdir()
    (tmp_path / "5-damaged" / "manifest.json").write_text("{")
    plan = time_plan(_manifest(), tmp_path)
    assert plan.planned_s == pytest.approx(48.0)
    assert plan.repeat_s == pytest.approx(36.0)
    assert plan.basis == f"as in the earlier run {tmp_path / '2-alike'}"


def test_the_present_setting_of_an_earlier_tuning_is_a_basis(tmp_path: Path) -> None:
    _write(_ended(_manifest(), 12.0), tmp_path / "1-tune" / "present")
    assert (
        time_plan(_manifest(), tmp_path).basis == f"as in the earlier run {tmp_path}/1-tune/present"
    )


def test_a_run_of_another_host_is_no_basis(tmp_path: Path) -> None:
    _write(replace(_ended(_manifest(), 12.0), hosts=[{"hostname": "other"}]), tmp_path / "1")
    assert time_plan(_manifest(), tmp_path).basis.startswith("no earlier run")


def test_a_resumed_run_rests_on_its_own_launches(tmp_path: Path) -> None:
    manifest = _manifest()
    manifest.passes[0].status, manifest.passes[0].duration_s = Status.DONE, 12.0
    plan = time_plan(manifest, tmp_path)
    assert plan.planned_s == pytest.approx(36.0)
    assert plan.basis == "the launches so far"


def test_a_budget_too_short_for_one_repeat_is_refused(tmp_path: Path) -> None:
    _write(_ended(_manifest(), 12.0), tmp_path / "1")
    with pytest.raises(UsageError) as raised:
        fit_budget(_manifest(budget_s=30.0), tmp_path, is_given=True)
    assert raised.value.message == (
        "--budget 30s is too short: one repeat takes about 48 s "
        f"(as in the earlier run {tmp_path / '1'})."
    )
    assert raised.value.hint.startswith("Shortest useful budget, two repeats: --budget 85s")
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(("preset", "has_less"), [("standard", True), ("quick", False)])
def test_a_short_budget_gets_the_quick_preset_proposed(
    tmp_path: Path, preset: str, has_less: bool
) -> None:
    _write(_ended(_manifest(), 12.0), tmp_path / "1")
    manifest = _manifest(budget_s=30.0)
    manifest.options["preset"] = preset
    with pytest.raises(UsageError) as raised:
        fit_budget(manifest, tmp_path, is_given=True)
    assert raised.value.hint.endswith("--preset quick") == has_less


def test_a_budget_for_one_repeat_is_accepted(tmp_path: Path) -> None:
    manifest = _manifest(budget_s=40.0)
    fit_budget(manifest, tmp_path, is_given=True)
    assert manifest.settings["budget_s"] == 40.0


@pytest.mark.parametrize(("preset_s", "budget_s"), [(30.0, 65.0), (900.0, 900.0)])
def test_the_budget_of_a_preset_grows_to_two_repeats(
    tmp_path: Path, preset_s: float, budget_s: float
) -> None:
    manifest = _manifest(budget_s=preset_s)
    fit_budget(manifest, tmp_path, is_given=False)
    assert manifest.settings["budget_s"] == budget_s


def test_where_no_time_is_known_no_budget_is_refused(tmp_path: Path) -> None:
    manifest = _manifest(budget_s=1.0, max_seconds=None, num_steps=50)
    fit_budget(manifest, tmp_path, is_given=True)
    assert manifest.settings["budget_s"] == 1.0
