import json
import sys
from pathlib import Path

import pytest

from hvdprof.launch.remote.tensorflow_workers import (
    free_ports,
    main,
    parameter_server_variables,
    worker_variables,
)


def test_each_worker_has_its_place_in_the_same_cluster():
    variables = [worker_variables([7001, 7002], rank) for rank in range(2)]

    configs = [json.loads(own["TF_CONFIG"]) for own in variables]
    assert [config["cluster"] for config in configs] == [
        {"worker": ["127.0.0.1:7001", "127.0.0.1:7002"]}
    ] * 2
    assert [config["task"] for config in configs] == [
        {"type": "worker", "index": 0},
        {"type": "worker", "index": 1},
    ]
    assert [(own["RANK"], own["WORLD_SIZE"]) for own in variables] == [("0", "2"), ("1", "2")]


def test_coordinator_and_parameter_server_come_before_the_workers():
    configs = [json.loads(own["TF_CONFIG"]) for own in parameter_server_variables([1, 2, 3, 4])]

    assert [(config["task"]["type"], config["task"]["index"]) for config in configs] == [
        ("chief", 0),
        ("ps", 0),
        ("worker", 0),
        ("worker", 1),
    ]
    assert {json.dumps(config["cluster"]) for config in configs} == {
        json.dumps(
            {
                "chief": ["127.0.0.1:1"],
                "ps": ["127.0.0.1:2"],
                "worker": ["127.0.0.1:3", "127.0.0.1:4"],
            }
        )
    }


@pytest.mark.parametrize("code", [0, 5])
def test_servers_are_ended_when_the_coordinator_has(tmp_path, code):
    script = (
        "import json, os, pathlib, sys, time\n"
        f"folder, task = pathlib.Path({str(tmp_path)!r}), json.loads(os.environ['TF_CONFIG'])\n"
        "kind, index = task['task']['type'], task['task']['index']\n"
        "(folder / f'{kind}{index}').write_text(str(os.getpid()))\n"
        "while kind != 'chief' or len(list(folder.iterdir())) < 4: time.sleep(0.01)\n"
        f"sys.exit({code})\n"
    )

    assert main(["--np=2", "--parameter-server", "--", sys.executable, "-c", script]) == code
    pids = [path.read_text() for path in tmp_path.iterdir()]
    assert len(pids) == 4
    assert not any(Path("/proc", pid).exists() for pid in pids)


def test_ports_are_different():
    assert len(set(free_ports(20))) == 20


def test_workers_run_together_and_the_first_failure_is_the_exit_code(tmp_path):
    script = (
        "import os, pathlib, sys; "
        f"pathlib.Path({str(tmp_path)!r}, os.environ['RANK']).write_text(os.environ['TF_CONFIG']); "
        "sys.exit(3 * int(os.environ['RANK']))"
    )

    assert main(["--np=2", "--", sys.executable, "-c", script]) == 3
    clusters = [json.loads((tmp_path / rank).read_text())["cluster"] for rank in "01"]
    assert clusters[0] == clusters[1]
