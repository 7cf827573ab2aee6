from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.run_options import FunctionOptions, RunOptions
from hvdprof.launch.plan.settings import ScriptSettings, Settings, read_settings
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from tests.builders.bench_settings import bench_settings, recorded

SCRIPT = ScriptSettings(command=("python", "train.py"), torchrun_options=("--tee", "3"))
FUNCTION = ScriptSettings(command=("horovod.run", "train"), is_function=True)
ELASTIC = ScriptSettings(command=("python", "train.py"), network_interface="lo")

KINDS: dict[str, tuple[type, Settings]] = {
    "bench": (
        BenchOptions,
        bench_settings(np=(1, 2), models=(), seed=7, env=("A=1",), stall_kill_s=90.0, turn_s=0.5),
    ),
    "run": (RunOptions, bench_settings(script=SCRIPT, np="1,2", command=("torchrun", "train.py"))),
    "elastic": (
        RunOptions,
        bench_settings(script=ELASTIC, host_discovery_script="./hosts.sh", max_np=4, slots=2),
    ),
    "function": (FunctionOptions, bench_settings(script=FUNCTION, np=(1, 2), light=True)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_settings_come_back_from_a_manifest_with_their_options(tmp_path: Path, kind: str) -> None:
    options, settings = KINDS[kind]
    recorded(settings).write(RunPaths(tmp_path))
    found = read_settings(Manifest.read(tmp_path))
    assert found == settings
    assert type(found.options) is options


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_has_no_option_among_its_settings_that_is_only_copied(kind: str) -> None:
    manifest = recorded(KINDS[kind][1])
    decided_too = manifest.settings.keys() & manifest.options.keys()
    assert decided_too <= {
        *("models", "num_warmup_batches", "max_seconds", "repeats", "precision", "data"),
        *("controller", "launcher", "device", "hosts", "num_threads"),
    }


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("settings", {"stall_warn_s": 60.0}),
        ("settings", {"sizes": "1,2"}),
        ("options", {"speed": 3}),
        ("options", {"seed": "7"}),
    ],
)
def test_settings_of_another_version_are_no_settings(part: str, changes: dict[str, Any]) -> None:
    manifest = recorded(bench_settings())
    manifest = replace(manifest, **{part: getattr(manifest, part) | changes})
    with pytest.raises(ValueError, match=next(iter(changes))):
        read_settings(manifest)


def test_variables_and_the_options_of_models_are_those_that_were_given() -> None:
    assert bench_settings(env=("A=1", "B=x=y", "A=2")).variables == {"A": "2", "B": "x=y"}
    assert bench_settings(script=SCRIPT, env=("A=1",)).variables == {"A": "1"}
    assert bench_settings(script=FUNCTION).variables == {}
    assert bench_settings(seed=7).of_models.seed == 7
    assert bench_settings(script=SCRIPT).of_models == BenchOptions()


def test_a_job_is_elastic_where_a_script_names_its_hosts() -> None:
    assert KINDS["elastic"][1].elastic == KINDS["elastic"][1].options
    assert [KINDS[kind][1].elastic for kind in ("bench", "run", "function")] == [None] * 3
