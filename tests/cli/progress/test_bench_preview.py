import io
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.api.measurement import Measurement
from hvdprof.cli.progress.bench_preview import announce, print_launches
from hvdprof.launch.plan.settings import ScriptSettings
from hvdprof.launch.run.bench_run import planned_manifest
from hvdprof.launch.run.script_launcher import Tools
from tests.builders.bench_settings import FOUR_CORES, bench_settings
from tests.builders.survey import make_build, make_mpi

TOOLS = Tools(make_build(), make_mpi())
SCRIPT = ScriptSettings(
    command=(),
)


def _measurement(**changes: object) -> Measurement:
    manifest = planned_manifest(bench_settings(**changes), FOUR_CORES, TOOLS)
    return Measurement(manifest, TOOLS, None, resumed=Path("runs/mine"))


@pytest.mark.parametrize(
    ("command", "is_secret"),
    [
        (None, False),
        (("python", "train.py", "--epochs", "3"), False),
        (("python", "train.py", "--api-key", "abc"), True),
        (("python", "train.py", "--data=https://me:abc@host/x"), True),
    ],
)
def test_a_secret_in_the_command_of_a_script_is_reported_and_not_repeated(
    command: tuple[str, ...] | None, is_secret: bool
) -> None:
    script = replace(SCRIPT, command=command) if command else None
    stream = io.StringIO()
    announce(_measurement(script=script), stream)

    text = stream.getvalue()
    assert ("seems to hold a secret" in text) == is_secret
    assert ("runs/mine/resume.json" in text) == is_secret
    assert "abc" not in text


def test_skipped_cells_and_warnings_are_announced() -> None:
    measurement = _measurement(compressions=("none", "fp16"))
    measurement.manifest.warnings.append("one host has 1 core")
    stream = io.StringIO()
    announce(measurement, stream)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "hvdprof: measuring into runs/mine"
    assert lines[1:3] == [
        "  4 launches of mnist; np 1, 2; 1 repeat.",
        "  Time: unknown before the first launch.",
    ]
    assert lines[3].startswith("skipped: mnist np=1 fp16: ")
    assert lines[4] == "! one host has 1 core"


@pytest.mark.parametrize(
    ("engine", "writes"), [("horovod", "Horovod's timeline"), ("collectives", "Flight Recorder")]
)
def test_a_dry_run_says_what_trace_launches_write(engine: str, writes: str) -> None:
    stream = io.StringIO()
    print_launches(_measurement(engines=(engine,), script=SCRIPT), stream)
    (line,) = [one for one in stream.getvalue().splitlines() if one.startswith("#   trace: ")]
    assert writes in line


@pytest.mark.parametrize("engine", ["horovod", "collectives"])
def test_more_ranks_than_cores_are_a_warning_before_the_first_launch(engine: str) -> None:
    warning = (
        "np=8, 1000: more ranks than cores or GPUs (oversubscribed). "
        "Excluded from statements on scaling."
    )
    measurement = _measurement(sizes=(1, 8, 1000), engines=(engine,), script=SCRIPT)
    announced, printed = io.StringIO(), io.StringIO()
    announce(measurement, announced)
    print_launches(measurement, printed)
    assert f"! {warning}\n" in announced.getvalue()
    assert f"# {warning}\n" in printed.getvalue()
    fits = io.StringIO()
    announce(_measurement(sizes=(1, 2), engines=(engine,), script=SCRIPT), fits)
    assert "oversubscribed" not in fits.getvalue()


def test_what_takes_cores_beside_the_ranks_is_in_the_warning() -> None:
    stream = io.StringIO()
    announce(_measurement(sizes=(8,), engines=("tf-parameter-server",), script=SCRIPT), stream)
    assert (
        "(oversubscribed). Under ParameterServerStrategy its coordinator and parameter server "
        "count as ranks. Excluded" in stream.getvalue()
    )


def test_a_run_that_stops_early_says_when_and_how_long_it_takes() -> None:
    measurement = _measurement(
        precision=0.03, budget_s=300.0, repeats=6, max_seconds=1.5, num_steps=None
    )
    stream = io.StringIO()
    announce(measurement, stream)
    assert stream.getvalue().splitlines()[1:] == [
        "  First repeat: 4 launches of mnist; np 1, 2.",
        "  Stops at ±3 % (efficiency at the largest np of each model, 95 % CI), after 5 min, or "
        "after 6 repeats.",
        "  Time: about 22 s for the first repeat, 16 s for each further one (no earlier run of "
        "this kind; corrected after the first launches).",
    ]


def test_a_run_with_a_budget_alone_or_a_precision_alone() -> None:
    streams = [io.StringIO(), io.StringIO()]
    announce(_measurement(budget_s=90.0, repeats=10), streams[0])
    announce(_measurement(precision=0.05, repeats=10), streams[1])
    assert "  Stops after 1 min 30 s, or after 10 repeats.\n" in streams[0].getvalue()
    assert " 95 % CI), or after 10 repeats.\n" in streams[1].getvalue()


def test_a_dry_run_begins_with_what_is_launched_and_sets_shared_variables_once() -> None:
    measurement = _measurement(sizes=(1, 2), repeats=2)
    stream = io.StringIO()
    print_launches(measurement, stream)
    lines = stream.getvalue().splitlines()
    launches = measurement.launches()
    assert lines[0] == f"# {len(launches)} launches of mnist; np 1, 2; 2 repeats."
    assert lines[1] == "# Time: unknown before the first launch."
    assert lines[2] == "# Names: NUMBER-npRANKS-KIND-rREPEAT."
    assert "#   trace: writes Horovod's timeline" in lines
    assert lines.count("export PYTHONFAULTHANDLER=1") == 1
    # A variable of one launch does not stay set for the next.
    assert [line for line in lines if "HOROVOD_TIMELINE" in line] == ["HOROVOD_TIMELINE=DYNAMIC \\"]
    for launch in launches:
        for variable, value in launch.environment.items():
            text = f"{variable}={shlex.quote(value)}"
            assert f"export {text}" in lines or f"{text} \\" in lines


def test_a_dry_run_is_shell_text() -> None:
    stream = io.StringIO()
    print_launches(_measurement(sizes=(2,)), stream)
    lines = stream.getvalue().splitlines()
    assert "# 01-np2-throughput-r1: mnist-none-average" in lines
    assert lines.count("export OMP_NUM_THREADS=1") == 1
    command = next(line for line in lines if "hvdprof.bench_models.train" in line)
    assert command.startswith(make_mpi().mpirun)
    assert "runs/mine/passes/01-np2-throughput-r1/plan.json" in command
