import json
import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hvdprof.errors import EnvironmentNotReadyError, StorageError
from hvdprof.launch.remote.host_probe import MARK, HostProbe, parse_probe, probe_host
from hvdprof.launch.remote.host_survey import host_records, problems_of, survey_hosts
from hvdprof.launch.remote.remote_shell import HostShell

VERSIONS = {
    "hvdprof": "0.1",
    "python": "3.11.7",
    "torch": "2.13.0",
    "horovod": "0.28.1",
    "system": "Linux-6",
    "mpi": "openmpi 4.1.8",
}


def _brief(**changes: Any) -> HostProbe:
    values: dict[str, Any] = {
        "versions": VERSIONS,
        "problem": "",
        "hostname_resolves": True,
        "shares_folder": True,
        "host": {"hostname": "n1", "num_cores": 4},
    }
    return HostProbe(**values | changes)


def _with(**versions: str) -> HostProbe:
    return _brief(versions=VERSIONS | versions)


def _shell(folder: Path, **answers: str) -> HostShell:
    """A remote shell whose hosts answer with the given lines of shell."""
    cases = "".join(f"{host}) {text};;\n" for host, text in answers.items())
    agent = folder / "agent"
    agent.write_text(f'#!/bin/bash\necho "welcome to $1"\ncase $1 in\n{cases}esac\n')
    agent.chmod(0o755)
    return HostShell((str(agent),), {"PATH": "/usr/bin:/bin"})


def _says(brief: HostProbe) -> str:
    return "echo " + shlex.quote(MARK + json.dumps(asdict(brief)))


def _survey(folder: Path, **answers: str) -> dict[str, HostProbe]:
    return survey_hosts(
        list(answers), _shell(folder, **answers), folder=folder, controller="mpi", timeout_s=20
    )


def test_hosts_that_fit_together(tmp_path: Path) -> None:
    other = _brief(versions=VERSIONS | {"system": "Linux-5"}, host={"hostname": "n2"})
    briefs = _survey(tmp_path, n1=_says(_brief()), n2=_says(other))
    assert briefs == {"n1": _brief(), "n2": other}
    records = host_records(briefs)
    assert records[1] == {"hostname": "n2", "versions": other.versions, "shares_folder": True}
    # Nothing of the survey stays in the run directory.
    assert [path.name for path in tmp_path.iterdir()] == ["agent"]


def test_every_host_with_a_problem_is_named(tmp_path: Path) -> None:
    module = "hvdprof.launch.remote.host_probe"
    not_found = f"Error while finding module specification for '{module}' (ModuleNotFoundError: "
    with pytest.raises(EnvironmentNotReadyError) as raised:
        _survey(
            tmp_path,
            n1=_says(_brief()),
            n2="echo 'ssh: connect to host n2 port 22: No route to host' >&2; exit 255",
            n3=f"echo \"py: {not_found}No module named 'hvdprof')\" >&2; exit 1",
            n4=f"echo 'py: No module named {module}' >&2; exit 1",
            n5="echo 'env: py: No such file or directory' >&2; exit 127",
            n6="true",
            n7=_says(_brief(problem="Horovod is not installed")),
        )
    assert raised.value.message.split("\n  ") == [
        "n2 cannot be reached: ssh: connect to host n2 port 22: No route to host.",
        f"n3 has no hvdprof in {sys.executable}, or an older one.",
        f"n4 has no hvdprof in {sys.executable}, or an older one.",
        f"n5 has no {sys.executable}: env: py: No such file or directory.",
        "The probe of n6 failed: exit code 0, and no message.",
        "n7: Horovod is not installed.",
    ]
    assert "ssh n2 true" in raised.value.hint


@pytest.mark.waits
def test_a_host_that_does_not_answer_costs_its_time_alone(tmp_path: Path) -> None:
    shell = _shell(tmp_path, n1="sleep 30", n2="sleep 30")
    began = time.monotonic()
    with pytest.raises(EnvironmentNotReadyError, match=r"n1 did not answer within 1.00 s"):
        survey_hosts(["n1", "n2"], shell, folder=tmp_path, controller="mpi", timeout_s=1)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("versions", "sentence"),
    [
        ({"horovod": "0.28.0"}, "Horovod is not the same on all hosts: 0.28.1 on n1, n2; 0.28.0 "),
        ({"hvdprof": "0.2"}, "hvdprof is not the same on all hosts: 0.1 on n1, n2; 0.2 on n3."),
        ({"torch": "2.1"}, "torch is not the same on all hosts: 2.13.0 on n1, n2; 2.1 on n3."),
        ({"nccl": "2.21"}, "NCCL is not the same on all hosts: none on n1, n2; 2.21 on n3."),
        ({"mpi": "mpich 4"}, "MPI is not the same on all hosts: openmpi 4.1.8 on n1, n2; mpich 4"),
        ({"python": "3.12.1"}, "Python is not the same on all hosts: 3.11.7 on n1, n2; 3.12.1 on"),
    ],
)
def test_versions_that_differ(versions: dict[str, str], sentence: str) -> None:
    briefs = {"n1": _brief(), "n2": _brief(), "n3": _with(**versions)}
    (found,) = problems_of(briefs, "mpi")
    assert found.sentence.startswith(sentence)


def test_what_a_job_does_not_use_may_differ() -> None:
    briefs = {"n1": _brief(), "n2": _with(mpi="mpich 4", system="Linux-1")}
    assert list(problems_of(briefs, "gloo")) == []


def test_ranks_of_torch_need_no_horovod(tmp_path: Path) -> None:
    briefs = {"n1": _brief(), "n2": _with(horovod="none", mpi="mpich 4")}
    assert list(problems_of(briefs, "mpi", needs_horovod=False)) == []
    (found,) = problems_of({"n1": _with(), "n2": _with(torch="2.1")}, "gloo", needs_horovod=False)
    assert found.sentence.startswith("torch is not the same on all hosts")
    (found,) = problems_of({"n1": _brief(problem="no PyTorch")}, "gloo", needs_horovod=False)
    assert (found.sentence, found.hint) == ("n1: no PyTorch.", "pip install torch   (on that host)")
    says = f"""case "$*" in *host_probe*torch*) {_says(_brief())};; *) exit 3;; esac"""
    shell = _shell(tmp_path, n1=says)
    asked = survey_hosts(
        ["n1"], shell, folder=tmp_path, controller="gloo", needs_horovod=False, timeout_s=20
    )
    assert list(asked) == ["n1"]


def test_an_unresolvable_host_name_matters_to_gloo_alone() -> None:
    briefs = {"n1": _brief(), "n2": _brief(hostname_resolves=False)}
    assert list(problems_of(briefs, "mpi")) == []
    (found,) = problems_of(briefs, "gloo")
    assert found.sentence.startswith("n2 cannot look up its own host name")


def test_a_long_list_of_hosts_is_shortened() -> None:
    briefs = {f"n{number}": _with(torch=f"2.{number % 2}") for number in range(40)}
    (found,) = problems_of(briefs, "mpi")
    assert "2.0 on n0, n2, n4, n6, n8, n10, n12, n14 and 12 more" in found.sentence


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Could not write"):
        survey_hosts([], _shell(tmp_path), folder=tmp_path / "missing", controller="mpi")


@pytest.mark.slow
def test_the_brief_of_torch_alone_on_this_host() -> None:
    brief = probe_host(None, needs_horovod=False)
    assert brief.problem == ""
    assert brief.versions["torch"]
    assert "mpi" not in brief.versions


@pytest.mark.slow
def test_the_brief_of_this_host(tmp_path: Path) -> None:
    token = tmp_path / "token"
    assert not probe_host(token).shares_folder
    token.touch()
    brief = probe_host(token)
    assert brief.shares_folder
    assert brief.host["num_cores"] >= 1
    text = f"banner\n{MARK}{json.dumps(asdict(brief))}\nbye\n"
    assert parse_probe(text) == brief


@pytest.mark.parametrize("text", ["", "hello", f"{MARK}{{", f'{MARK}{{"versions": {{}}}}'])
def test_what_is_no_brief(text: str) -> None:
    assert parse_probe(text) is None
