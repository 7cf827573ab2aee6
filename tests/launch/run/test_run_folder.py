import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hvdprof.errors import StorageError, UsageError
from hvdprof.launch.run.bench_run import planned_manifest
from hvdprof.launch.run.run_folder import make_run_folder
from hvdprof.launch.run.script_launcher import Tools
from hvdprof.rundir.manifest import Manifest, Status
from hvdprof.rundir.run_lock import exclusive_run
from tests.builders.bench_settings import FOUR_CORES, bench_settings
from tests.builders.survey import make_build


def test_runs_that_start_in_the_same_second_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tools = Tools(make_build(), None)
    manifests = [planned_manifest(bench_settings(), FOUR_CORES, tools) for _ in range(8)]
    together = threading.Barrier(len(manifests))

    def make(manifest):
        together.wait()
        return make_run_folder(manifest, None, "bench")

    with ThreadPoolExecutor(len(manifests)) as pool:
        folders = list(pool.map(make, manifests))
    assert len(set(folders)) == len(manifests)
    assert all((folder / "manifest.json").exists() for folder in folders)


@pytest.mark.timeout(60)
def test_a_folder_of_runs_that_cannot_be_made_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").symlink_to(tmp_path / "unmounted" / "scratch")
    manifest = planned_manifest(bench_settings(), FOUR_CORES, Tools(make_build(), None))

    with pytest.raises(StorageError, match="Could not make runs: File exists"):
        make_run_folder(manifest, None, "bench")


def test_a_folder_with_something_in_it_is_not_written_over(tmp_path):
    manifest = planned_manifest(bench_settings(), FOUR_CORES, Tools(make_build(), None))
    assert make_run_folder(manifest, tmp_path / "run", "bench") == tmp_path / "run"
    with pytest.raises(StorageError, match="not empty"):
        make_run_folder(manifest, tmp_path / "run", "bench")
    with pytest.raises(StorageError, match=r"Could not make .*run/manifest\.json"):
        make_run_folder(manifest, tmp_path / "run" / "manifest.json" / "under", "bench")


@pytest.mark.parametrize("output", ["stranger/run", "stranger", None])
def test_a_folder_in_which_others_could_plant_files_gets_no_run(tmp_path, monkeypatch, output):
    manifest = planned_manifest(bench_settings(), FOUR_CORES, Tools(make_build(), None))
    place = tmp_path / ("runs" if output is None else "stranger")
    place.mkdir()
    place.chmod(0o777)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(StorageError, match="every user may write to"):
        make_run_folder(manifest, None if output is None else Path(output), "bench")
    assert list(place.iterdir()) == []


def test_of_two_starts_into_one_new_folder_one_gets_it(tmp_path):
    tools = Tools(make_build(), None)
    manifests = [planned_manifest(bench_settings(), FOUR_CORES, tools) for _ in range(8)]
    together = threading.Barrier(len(manifests))

    def make(number):
        together.wait()
        try:
            make_run_folder(manifests[number], tmp_path / "run", f"start {number}")
        except (StorageError, UsageError):
            return None
        return f"start {number}"

    with ThreadPoolExecutor(len(manifests)) as pool:
        made = [name for name in pool.map(make, range(len(manifests))) if name]
    assert [Manifest.read(tmp_path / "run").name] == made


def test_a_run_that_is_made_counts_as_in_progress(tmp_path):
    manifest = planned_manifest(bench_settings(), FOUR_CORES, Tools(make_build(), None))
    folder = make_run_folder(manifest, tmp_path / "run", "bench")
    assert Manifest.read(folder).status == Status.PLANNED
    with exclusive_run(folder):
        pass
    assert Manifest.read(folder).was_killed
