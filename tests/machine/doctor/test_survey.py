import os
import platform
from pathlib import Path

import pytest

from hvdprof.machine.doctor import survey as survey_module
from hvdprof.machine.doctor.survey import take_survey


@pytest.fixture(autouse=True)
def _without_asking_horovod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_module, "ask_horovod", lambda python: None)


def test_survey_of_this_machine(tmp_path: Path) -> None:
    survey = take_survey(tmp_path)
    assert survey.python_version == platform.python_version()
    assert survey.cpu_count == os.cpu_count()
    assert 1 <= survey.host["num_cores"] <= survey.cpu_count
    assert survey.free_disk_bytes is not None
    assert survey.free_disk_bytes > 0


def test_secrets_are_masked_and_ranks_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_SECRET_KEY", "abc")
    monkeypatch.setenv("PMI_RANK", "3")
    survey = take_survey()
    assert survey.environment["HOROVOD_SECRET_KEY"] == "***"
    assert "PMI_RANK" in survey.launcher_variables


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert take_survey(tmp_path / "absent").free_disk_bytes is None


def test_a_systems_python_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setattr("sys.prefix", "/usr")
    monkeypatch.setattr("sys.base_prefix", "/usr")
    assert take_survey().externally_managed
    monkeypatch.setattr("sys.prefix", "/venv")
    assert not take_survey().externally_managed
