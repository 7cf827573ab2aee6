"""The workflows of the forge: their grammar by actionlint, and that what they run exists."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.places import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CHANGES = (
    "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.3.0 - 2026-12-01\n\n### Added\n\n- a\n\n"
    "## 0.2.0\n\n- b\n"
)


@pytest.fixture(scope="module")
def notes():
    place = ROOT / ".ci" / "release_notes.py"
    spec = importlib.util.spec_from_file_location("release_notes", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.notes


@pytest.fixture(scope="module")
def actionlint():
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = shutil.which("actionlint", path=path)
    if program is None:
        pytest.skip("actionlint is not installed: make check brings it where it has a wheel")
    return [program, "-shellcheck=", "-pyflakes=", "-oneline"]


def steps(workflow):
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra bench")
    read = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    return [step for job in read["jobs"].values() for step in job["steps"]]


def test_there_are_workflows():
    assert [path.stem for path in WORKFLOWS] == [
        *("docs", "nightly", "performance", "release", "tests")
    ]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_is_bounded_and_has_few_rights(workflow):
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra bench")
    read = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert set(read["permissions"]) == {"contents"}
    # `on` is a truth value of YAML 1.1.
    assert read[True]
    for job in read["jobs"].values():
        assert job["timeout-minutes"] <= 180
        assert job["runs-on"].startswith("ubuntu-")
        for step in job["steps"]:
            assert {"uses", "run"} & set(step)
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v0"))
            # What others write, such as titles of pull requests, is given by variables alone.
            assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_what_is_run_exists(workflow):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for line in (step["run"] for step in steps(workflow) if "run" in step):
        for target in re.findall(r"\bmake ([a-z-]+)", line):
            assert target in targets
        for script in re.findall(r"\.ci/[\w.]+", line):
            assert (ROOT / script).is_file()


def test_actionlint_finds_nothing(actionlint):
    ended = subprocess.run([*actionlint, *map(str, WORKFLOWS)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "")


@pytest.mark.parametrize(
    ("good", "bad", "finding"),
    [
        ("actions/checkout@v6", "actions/checkout@v4", "runtime .* is deprecated"),
        ("github.event.pull_request", "github.evnt.pull_request", '"evnt" is not defined'),
        ("timeout-minutes", "timeout-minute", 'unexpected key "timeout-minute"'),
    ],
)
def test_actionlint_knows_the_grammar_of_the_forge(actionlint, good, bad, finding):
    (workflow,) = (path for path in WORKFLOWS if path.stem == "performance")
    text = workflow.read_text(encoding="utf-8")
    assert good in text
    ended = subprocess.run(
        [*actionlint, "-"], input=text.replace(good, bad), capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert re.search(finding, ended.stdout)


def test_the_notes_of_a_release_are_its_section(notes):
    assert notes("v0.3.0", CHANGES, "0.3.0") == "### Added\n\n- a\n"
    assert notes("v0.2.0", CHANGES, "0.2.0") == "- b\n"


@pytest.mark.parametrize(("tag", "version"), [("v0.3.0", "0.2.0"), ("v0.3", "0.3")])
def test_a_tag_of_another_version_or_without_notes_is_refused(notes, tag, version):
    with pytest.raises(ValueError, match=r"is not v|no section"):
        notes(tag, CHANGES, version)
