from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.launchers.elastic_job import (
    HorovodrunElastic,
    discover_hosts,
    network_of,
    prepare_elastic,
    reasons_to_wait,
)
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.hosts import Host
from hvdprof.launch.plan.run_options import RunOptions


def options(discovery_script="./discover.sh", **changes) -> RunOptions:
    return RunOptions(host_discovery_script=discovery_script, **changes)


def script(folder: Path, text: str) -> str:
    path = folder / "discover.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def job(size=2) -> Job:
    return Job(
        size=size,
        program=("python", "train.py"),
        hosts=None,
        environment={},
        passed_on=(),
        device="cpu",
    )


def test_the_command_has_only_what_was_given():
    launcher = HorovodrunElastic("horovodrun", options(), None)

    assert launcher.command(job()) == [
        "horovodrun",
        "--gloo",
        "-np",
        "2",
        "--min-np",
        "1",
        "--host-discovery-script",
        "./discover.sh",
        "python",
        "train.py",
    ]


def test_the_command_hands_every_limit_on():
    given = options(max_np=4, slots=2, elastic_timeout_s=30, reset_limit=3)
    command = " ".join(HorovodrunElastic("horovodrun", given, "lo").command(job()))

    for option in (
        "--max-np 4",
        "--slots-per-host 2",
        "--network-interfaces lo",
        "--elastic-timeout 30",
        "--reset-limit 3",
    ):
        assert option in command
    assert command.endswith(" python train.py")


def test_hosts_are_those_that_the_script_prints(tmp_path):
    printing = script(tmp_path, "echo server1:4; echo; echo ' server2 '")

    assert discover_hosts(printing, 2) == (Host("server1", 4), Host("server2", 2))


def test_a_script_may_name_no_host_yet(tmp_path):
    assert discover_hosts(script(tmp_path, "true"), None) == ()


@pytest.mark.parametrize("text", ["echo server1", "echo server1:four", "echo :4", "echo a b:4"])
def test_what_is_no_host_is_quoted(tmp_path, text):
    with pytest.raises(UsageError) as raised:
        discover_hosts(script(tmp_path, text), None)

    assert repr(text.removeprefix("echo ")) in raised.value.message


def test_a_failing_script_is_reported_with_its_stderr(tmp_path):
    with pytest.raises(EnvironmentNotReadyError) as raised:
        discover_hosts(script(tmp_path, "echo no cluster >&2; exit 3"), None)

    assert "exit code 3: no cluster" in raised.value.message


@pytest.mark.parametrize(
    ("names", "wanted", "network"),
    [
        (["localhost"], None, "lo"),
        (["localhost", "127.0.0.1"], None, "lo"),
        (["localhost"], "lo,eth0", "lo,eth0"),
        (["server1"], "eth0", "eth0"),
        ([], "eth0", "eth0"),
        (["localhost", "server1"], None, None),
        (["10.0.0.1"], None, None),
        ([], None, None),
    ],
)
def test_loopback_is_the_network_where_all_hosts_are_this_one(names, wanted, network):
    assert network_of(tuple(Host(name, 1) for name in names), wanted) == network


def test_an_interface_that_horovod_would_refuse_is_refused_before_the_start():
    with pytest.raises(UsageError) as raised:
        network_of((Host("localhost", 2),), "eth0")

    assert "lo" in raised.value.message


def test_reasons_that_keep_a_job_from_starting_are_reported():
    single_host = (Host("server1", 4),)

    assert reasons_to_wait(single_host, "eth0", 4) == []
    assert "two" in reasons_to_wait(single_host, None, 4)[0]
    assert "4 of 5 slots" in reasons_to_wait(single_host, "eth0", 5)[0]


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        ({"min_np": 3, "max_np": 2}, (3,)),
        ({"min_np": 2}, (1,)),
        ({"max_np": 2}, (3,)),
        ({}, (1, 2)),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(tmp_path, changes, sizes):
    with pytest.raises(UsageError):
        prepare_elastic(options(script(tmp_path, "echo localhost:2"), **changes), sizes)


def test_a_script_that_is_not_there_is_named(tmp_path):
    with pytest.raises(EnvironmentNotReadyError) as raised:
        prepare_elastic(options(str(tmp_path / "none.sh")), (1,))

    assert "none.sh" in raised.value.message


def test_a_prepared_job_has_its_network(tmp_path):
    network, waits = prepare_elastic(options(script(tmp_path, "echo localhost:1")), (2,))

    assert network == "lo"
    assert len(waits) == 1


@pytest.mark.parametrize("printed", ["-oProxyCommand=x:2", "-oProxyCommand=x", "h;id:1", "a b:1"])
def test_what_a_discovery_script_prints_is_a_host_and_no_option(tmp_path, printed):
    with pytest.raises(UsageError, match="which is not a host"):
        discover_hosts(script(tmp_path, f"echo '{printed}'"), 1)
