import json
import os
import shlex
import socket
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hvdprof.collect.host_facts import usable_cores
from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.hosts import Capacity
from hvdprof.launch.plan.options import record_of
from hvdprof.launch.plan.run_options import FunctionOptions
from hvdprof.launch.plan.settings import ScriptSettings, read_settings
from hvdprof.launch.remote import host_watch
from hvdprof.launch.remote import remote_launch as host_launch
from hvdprof.launch.remote.host_probe import MARK, HostProbe
from hvdprof.launch.remote.host_watch import HostWatch, answers, capacity_of, fit_to_hosts
from hvdprof.launch.remote.remote_launch import LaunchOnHosts, ready_hosts
from hvdprof.launch.run.sweep import Sweep
from hvdprof.launch.run.sweep_state import SilentProgress
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders.bench_settings import bench_options, bench_settings
from tests.builders.run_directory import write_run

NOTHING_KNOWN = Capacity({"a": None, "b": None}, {}, nccl=False)
# Ranks fill hosts in order: 4 ranks are 2 on each.
PLANNED = bench_settings(hosts="a:2,b:2", sizes=(1, 2, 4), num_threads=4, repeats=2)


class _Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class _Hosts:
    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.asked = 0

    def __call__(self, name: str) -> bool:
        self.asked += 1
        return name not in self.gone


def test_hosts_are_not_asked_while_ranks_make_progress() -> None:
    clock, hosts = _Clock(), _Hosts()
    watch = HostWatch({"b": [1]}, hosts, clock)
    for step in range(50):
        clock.now_s += 1
        watch.look(step)
    assert hosts.asked == 1
    assert watch.lost == {}


def test_a_host_that_is_gone_is_lost_after_a_while() -> None:
    clock, hosts = _Clock(), _Hosts()
    watch = HostWatch({"b": [1], "c": [2]}, hosts, clock)
    watch.look(7)
    hosts.gone = {"c"}
    asked = hosts.asked
    clock.now_s += host_watch.NO_PROGRESS_S
    watch.look(7)
    assert watch._asking is not None
    watch._asking.join()
    assert hosts.asked == asked + 2
    for _ in range(2):
        clock.now_s += 4
        watch.ask()
        assert watch.lost == {}
    clock.now_s += 4
    assert watch.lost == {"c": pytest.approx(12, abs=0.1)}


def test_a_host_that_comes_back_in_time_is_not_lost() -> None:
    clock, hosts = _Clock(), _Hosts()
    watch = HostWatch({"b": [1]}, hosts, clock)
    hosts.gone = {"b"}
    watch.ask()
    watch.ask()
    hosts.gone = set()
    watch.ask()
    hosts.gone = {"b"}
    clock.now_s += 60
    watch.ask()
    assert watch.lost == {}


def test_a_host_that_never_answers_is_not_watched() -> None:
    hosts = _Hosts()
    hosts.gone = {"b"}
    watch = HostWatch({"b": [1], "c": [2]}, hosts)
    assert watch.hosts == {"c": [2]}
    assert hosts.asked == 3
    watch.ask_to_the_end()
    assert watch.lost == {}


def test_asking_to_the_end_ends_with_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, hosts = _Clock(), _Hosts()

    def sleep(seconds: float) -> None:
        clock.now_s += seconds + 3

    monkeypatch.setattr(time, "sleep", sleep)
    watch = HostWatch({"b": [1], "c": [2]}, hosts, clock)
    hosts.gone = {"b"}
    watch.ask_to_the_end()
    assert set(watch.lost) == {"b"}


def test_a_refusal_is_an_answer_and_silence_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(host_watch, "_PORT", listener.getsockname()[1])
        assert answers("127.0.0.1")
    assert answers("127.0.0.1")
    assert not answers("no-such-host.invalid")


def planned(folder, settings=PLANNED):
    manifest = Manifest.read(write_run(folder, []))
    manifest.settings, manifest.options = settings.record(), record_of(settings.options)
    manifest.passes = plan_design(settings, NOTHING_KNOWN).passes
    return manifest


def fitted(folder, settings=PLANNED, **cores):
    manifest = planned(folder, settings)
    return fit_to_hosts(settings, manifest, Capacity(cores, {}, nccl=False)), manifest


def crowded_sizes(manifest):
    return {record.size for record in manifest.passes if record.oversubscribed}


def test_the_smallest_host_decides_the_threads_of_all(tmp_path):
    settings, manifest = fitted(tmp_path, a=16, b=4)

    assert settings.num_threads == 2
    assert read_settings(manifest) == settings
    assert crowded_sizes(manifest) == set()
    assert manifest.warnings == []
    # The timeline's writer has no core left on b.
    assert {(one.size, one.mode) for one in manifest.passes if not one.pinned} == {(4, "trace")}


def test_a_host_with_too_few_cores_is_named_with_the_sizes_it_is_too_small_for(tmp_path):
    asked_for = replace(PLANNED, options=bench_options(num_threads=4))
    settings, manifest = fitted(tmp_path, asked_for, a=8, b=2)

    assert settings == asked_for
    assert crowded_sizes(manifest) == {4}
    assert manifest.warnings == ["b has 2 cores for 8 threads of ranks at np=4 (oversubscribed)."]
    assert not any(one.pinned for one in manifest.passes if one.size == 4)


def test_a_host_with_a_single_core_is_oversubscribed(tmp_path):
    settings, manifest = fitted(tmp_path, a=1, b=1)

    assert settings.num_threads == 1
    assert manifest.warnings == [
        "a has 1 core for 2 ranks at np=2, 2 ranks at np=4 (oversubscribed).",
        "b has 1 core for 2 ranks at np=4 (oversubscribed).",
    ]


def test_gpus_of_each_host_count_where_ranks_use_them(tmp_path):
    settings = replace(PLANNED, device="cuda", options=bench_options(num_threads=4))
    manifest = planned(tmp_path, settings)
    fit_to_hosts(settings, manifest, Capacity({}, {"a": 2, "b": 1}, nccl=True))

    assert crowded_sizes(manifest) == {4}
    assert manifest.warnings == ["b has 1 GPU for 2 ranks at np=4 (oversubscribed)."]


def test_a_resumed_run_keeps_its_threads_and_its_warnings(tmp_path):
    manifest = planned(tmp_path)
    manifest.passes[0].status = Status.DONE
    cores = Capacity({"a": 16, "b": 4}, {}, nccl=False)
    first = fit_to_hosts(PLANNED, manifest, cores)
    again = fit_to_hosts(first, manifest, cores)

    assert first == again == PLANNED
    assert manifest.warnings == ["b has 4 cores for 8 threads of ranks at np=4 (oversubscribed)."]
    assert not manifest.passes[0].oversubscribed


def test_hosts_with_unknown_cores_change_nothing(tmp_path):
    manifest = planned(tmp_path)

    assert fit_to_hosts(PLANNED, manifest, NOTHING_KNOWN) == PLANNED
    assert manifest.warnings == []


def test_this_host_gives_ranks_what_this_process_has():
    facts = {
        socket.gethostname(): {"num_cores": 4096},
        "192.0.2.1": {"num_cores": 4096, "gpus": [{}, {}]},
        "192.0.2.2": {},
    }
    capacity = capacity_of(PLANNED, facts)

    assert list(capacity.cores_by_host.values()) == [usable_cores(), 4096, None]
    assert list(capacity.gpus_by_host.values()) == [None, 2, None]


def test_inside_slurm_the_processors_of_the_job_count(monkeypatch):
    slurm = {"JOB_ID": "7", "JOB_NODELIST": "n1", "JOB_CPUS_PER_NODE": "6", "TASKS_PER_NODE": "2"}
    for name, value in slurm.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    settings = bench_settings(launcher="srun")

    # Asked by a step of one task, the node saw one core.
    capacity = capacity_of(settings, {"n1": {"num_cores": 1}, "n2": {"num_cores": 1}})
    assert capacity.cores_by_host == {"n1": 6, "n2": None}


class _Launcher:
    def command(self, job):
        return list(job.program)


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """A sweep over two hosts that a stand-in for ssh makes: 16 cores, and 4."""
    agent = tmp_path / "agent"
    versions = {"hvdprof": "1", "horovod": "0.28.1"}
    answers = ""
    for name, cores in (("a", 16), ("b", 4), (socket.gethostname(), 2)):
        brief = HostProbe(
            versions=versions,
            problem="",
            hostname_resolves=True,
            shares_folder=name != "b",
            host={"hostname": name, "num_cores": cores},
        )
        answers += f"{name}) echo {shlex.quote(MARK + json.dumps(asdict(brief)))};;\n"
    agent.write_text(f"#!/bin/bash\ncase $1 in\n{answers}esac\n")
    agent.chmod(0o755)
    monkeypatch.setattr("hvdprof.launch.remote.remote_shell.is_this_host", lambda name: False)
    monkeypatch.setattr("hvdprof.launch.remote.host_survey.is_this_host", lambda name: False)

    def build(settings=PLANNED) -> Sweep:
        manifest = planned(tmp_path / "run", settings)
        return Sweep(
            settings=settings,
            manifest=manifest,
            paths=RunPaths(tmp_path / "run"),
            launcher=_Launcher(),
            mpi=None,
            progress=SilentProgress(),
            environment={**os.environ, "OMPI_MCA_plm_rsh_agent": str(agent)},
        )

    return build


def test_hosts_are_asked_before_the_first_pass_and_the_plan_is_fitted(sweep, tmp_path):
    made = sweep()
    ready_hosts(made)

    assert made.settings.num_threads == 2
    assert Manifest.read(tmp_path / "run").settings["num_threads"] == 2
    assert isinstance(made.run_launch, LaunchOnHosts)
    assert made.run_launch.settings == made.settings
    assert made.run_launch.apart == ("b",)


def test_a_function_brings_its_files_back_and_keeps_who_starts_it(sweep):
    function = ScriptSettings(command=("horovod.run", "train"), is_function=True)
    given = {"script": function, "options": FunctionOptions(), "launcher": "horovod.run"}
    made = sweep(replace(PLANNED, **given))

    def start(launch):
        raise AssertionError

    made.run_launch = start
    ready_hosts(made)

    assert isinstance(made.run_launch, LaunchOnHosts)
    assert (made.run_launch.run, made.run_launch.apart) == (start, ())
    assert {host["hostname"] for host in made.manifest.hosts} >= {"a", "b"}


def test_a_sweep_on_this_host_alone_asks_no_host(sweep, monkeypatch):
    def ask(*_):
        raise AssertionError

    monkeypatch.setattr(host_launch, "ask_hosts", ask)
    made = sweep(replace(PLANNED, hosts=None))
    before = made.run_launch
    ready_hosts(made)

    assert made.run_launch is before
    assert Path(made.paths.manifest).exists()
