"""The texts and tables of the recorded runs: what changes in them is changed on purpose."""

import pytest

from tests.builders.golden_texts import GOLDEN, golden_texts
from tests.builders.recorded_runs import RECORDED

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", RECORDED)
def test_the_texts_of_a_recorded_run_are_those_of_the_repository(tmp_path, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    made = golden_texts(name, tmp_path)

    expected = {path.name: path.read_text(encoding="utf-8") for path in (GOLDEN / name).iterdir()}
    assert sorted(made) == sorted(expected)
    for file, text in made.items():
        assert text == expected[file], (
            f"{name}/{file} differs; if on purpose: python -m tests.builders.golden_texts {name}"
        )
