import json
import sys

from hvdprof.launch.remote.tensorflow_workers import free_ports, main, worker_variables


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
