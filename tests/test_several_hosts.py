"""Several hosts, asked before anything starts: network namespaces of this machine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import hvdprof
from hvdprof.errors import EnvironmentNotReadyError
from tests.builders import user_script
from tests.builders.network_hosts import NetworkHosts, network_hosts

PACKAGE = Path(hvdprof.__file__).parent

pytestmark = [pytest.mark.horovod, pytest.mark.root, pytest.mark.timeout(300)]


@pytest.fixture
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkHosts]:
    with network_hosts(tmp_path_factory.mktemp("hosts")) as made:
        yield made


def _run(hosts: NetworkHosts, folder: Path, *options: str) -> "tuple[int, str]":
    done = hosts.hvdprof(
        *("run", "--hosts", hosts.argument, "--np", "2", "--quiet", "--no-trace"),
        *("--output", str(folder), *options),
        *("--", "python", user_script.__file__, "--epochs", "1"),
    )
    return done.returncode, done.stderr


def test_a_host_that_cannot_be_reached_is_named_before_anything_starts(
    hosts: NetworkHosts, tmp_path: Path
) -> None:
    hosts.unreachable(hosts.names[1])
    code, told = _run(hosts, tmp_path / "run")
    assert code == EnvironmentNotReadyError.exit_code
    assert told.startswith(f"hvdprof: {hosts.names[1]} cannot be reached: ssh: connect to host")
    assert not (tmp_path / "run" / "passes").exists()


def test_a_host_without_hvdprof_is_named_before_anything_starts(
    hosts: NetworkHosts, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    hosts.hide(hosts.names[1], PACKAGE, behind=empty)
    code, told = _run(hosts, tmp_path / "run")
    assert code == EnvironmentNotReadyError.exit_code
    assert told.startswith(f"hvdprof: {hosts.names[1]} has no hvdprof in ")
    assert not (tmp_path / "run" / "passes").exists()


def test_a_host_with_another_version_is_named_before_anything_starts(
    hosts: NetworkHosts, tmp_path: Path
) -> None:
    of_package = PACKAGE / "__init__.py"
    other = tmp_path / "__init__.py"
    other.write_text(of_package.read_text().replace(hvdprof.__version__, "0.0.7"))
    hosts.hide(hosts.names[1], of_package, behind=other)
    code, told = _run(hosts, tmp_path / "run")
    first, second = hosts.names
    assert code == EnvironmentNotReadyError.exit_code
    assert told.startswith(
        f"hvdprof: hvdprof is not the same on all hosts: {hvdprof.__version__} on {first}; "
        f"0.0.7 on {second}."
    )
    assert not (tmp_path / "run" / "passes").exists()
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["status"] == "planned"
