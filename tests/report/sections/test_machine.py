"""What the machine did to each rank, in the section of every report."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.run_tables import RANKS, SEGMENTS, TURNS
from hvdprof.model.tables.sample_tables import DEVICE_SAMPLES, RANK_MACHINE
from hvdprof.model.tables.scaling_tables import LAUNCHES
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.sections.machine import machine_sections, work_sentences
from hvdprof.report.sections.section import Section
from hvdprof.rundir.layout import PassPaths
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import analysis as finished_analysis
from tests.builders.finished_analysis import run as finished_run
from tests.builders.finished_analysis import verdict
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

S = 1_000_000_000

KEY = {"pass_id": "p", "segment": "s"}
CELL = {"model": "resnet18", "engine": "horovod", "compression": "none", "reduction": "average"}
NAN = float("nan")


def sections(
    folder: Path,
    ranks: list[dict[str, float]],
    scopes: dict[str, str],
    *,
    takes_turns: bool = False,
) -> Any:
    """The sections of a run whose ranks were sampled: the same values all along."""
    parts = SegmentSpec(parts_ms=typical_parts(40.0))
    write_run(folder, [PassSpec(size=len(ranks), segments=[parts])])
    (path,) = (folder / "passes").iterdir()
    for rank, values in enumerate(ranks):
        lines = [
            {
                "kind": "samples",
                "scope": scope,
                "device": "",
                "start_ns": 0,
                "end_ns": 60 * S,
                "measures": [
                    [name, 3, value, value, value, value]
                    for name, value in values.items()
                    if scopes.get(name, "rank") == scope
                ],
            }
            for scope in ("rank", "host", "device")
        ]
        for start in range(40):
            for line in lines:
                line |= {"start_ns": start * S // 4, "end_ns": (start + 1) * S // 4}
            with PassPaths(path).samples_file(rank).open("a") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines))
    analysis = analyze_run(load_run(folder))
    if takes_turns:
        turn = dict.fromkeys(("round", "first_step"), 0) | {"num_steps": 5, "dur_ns": S}
        row = {"pass_id": path.name, "segment": "main", "other_cores": 0.1, "steal_share": 0.0}
        frames = {**analysis.run.frames, TURNS.name: TURNS.frame([row | turn])}
        analysis = dataclasses.replace(analysis, run=analysis.run.extended(frames, []))
    return machine_sections(analysis)


CPU = {"busy": "host", "psi_cpu": "host", "steal": "host", "swap_in": "host"}
GPU = dict.fromkeys(("sm_clock", "limited_power", "remote_cores", "xid", "limited_idle"), "device")


def one(found: tuple[Section, ...]) -> Section:
    (section,) = found
    return section


def test_turns_of_other_launches_are_said_to_be_left_out(tmp_path: Path) -> None:
    values = [{"cpu": 0.2, "core_wait": 0.02}, {"cpu": 0.2, "core_wait": 0.03}]
    plain = one(sections(tmp_path / "plain", values, {}))
    turned = one(sections(tmp_path / "turned", values, {}, takes_turns=True))
    assert "turns" not in plain.caption
    assert (
        "mostly in turns of other launches, in which its ranks sleep, are left out"
        in turned.caption
    )


def test_the_launch_is_one_of_the_cell_of_the_verdict() -> None:
    models = {"s": "mnist", "t": "resnet18"}
    segments = [
        {**CELL, "pass_id": "p", "segment": name, "model": model, "size": 2, "mode": "throughput"}
        for name, model in models.items()
    ]
    samples = [
        measured("core_wait", rank, share) | {"segment": name}
        for name, share in (("s", 0.08), ("t", 0.33))
        for rank in (0, 1)
    ]
    known: RunAnalysis = finished_analysis(
        run=finished_run(**{SEGMENTS.name: declared_rows(SEGMENTS, *segments)}),
        derived={RANK_MACHINE.name: declared_rows(RANK_MACHINE, *samples)},
    )
    for model, share in (("resnet18", "33 %"), ("mnist", "8 %")):
        own = verdict(model=model, np=2, engine="horovod")
        section = one(machine_sections(replace(known, verdict=own)))
        assert section.caption.startswith(f"{model} on 2 ranks: means over the steady steps of p")
        assert [row[1] for row in section.rows] == [share, share]
    # A verdict on a cell without samples: that of most ranks.
    other = verdict(model="vgg16", np=8, engine="horovod")
    assert one(machine_sections(replace(known, verdict=other))).rows


def test_cores_and_memory_of_each_rank_and_the_host(tmp_path: Path) -> None:
    first = {"cpu": 0.9, "core_wait": 0.02, "rss": 2e9, "busy": 1.9, "psi_cpu": 0.4, "steal": 0.01}
    section = one(sections(tmp_path, [first, {"cpu": 0.5, "core_wait": 0.48, "rss": 3e9}], CPU))

    assert [head.name.replace("\n", " ") for head in section.heads] == [
        *("rank", "cores used", "no core, of time ready", "rss")
    ]
    assert section.rows[0][:3] == ("0", "0.9", "2 %")
    assert section.rows[1][:3] == ("1", "0.5", "48 %")
    (host,) = section.sentences
    assert host.endswith(": 1.9 cores busy, CPU pressure 40 %.")


def test_what_limits_a_gpu_is_said_of_its_rank_alone(tmp_path: Path) -> None:
    limited = {"sm_clock": 1.2e9, "limited_power": 0.62, "xid": 79, "remote_cores": 1}
    free = {"sm_clock": 1.98e9, "limited_power": 0.0, "xid": 0, "limited_idle": 0.5}
    section = one(sections(tmp_path, [limited, free], GPU))

    assert [head.name for head in section.heads] == ["rank", "SM clock", "XID"]
    assert section.rows == (("0", "1200 MHz", "79"), ("1", "1980 MHz", "0"))
    assert section.sentences == (
        "Rank 0: clock limited by power 62 % of the time, cores on another NUMA node than its GPU.",
    )


def test_of_many_ranks_those_with_a_core_least_often(tmp_path: Path) -> None:
    section = one(sections(tmp_path, [{"core_wait": 0.01 * rank} for rank in range(10)], {}))

    assert [row[0] for row in section.rows] == [str(rank) for rank in range(2, 10)]
    assert section.sentences == ("2 ranks with a core more often not shown.",)


@pytest.mark.parametrize("ranks", [[{}, {}]])
def test_without_samples_there_is_no_section(tmp_path: Path, ranks: list[Any]) -> None:
    assert sections(tmp_path, ranks, {}) == ()


def measured(measure: str, rank: int, mean: float, low: float = NAN, high: float = NAN) -> Any:
    ends = {"low": low, "high": high}
    return {**KEY, "rank": rank, "measure": measure, "mean": mean, **ends}


def said(
    rows: list[dict[str, Any]],
    *,
    batch: int = 16,
    gpus: tuple[str, ...] = ("a", "b"),
    device: str = "NVIDIA H200",
    np: int = 2,
) -> list[str]:
    """The sentences on a launch of two ranks, of which a cause takes 20 % of the step."""
    ranks = [{"pass_id": "p", "rank": n, "hostname": "h", "gpu": gpu} for n, gpu in enumerate(gpus)]
    names = [{"pass_id": "p", "rank": n, "device": device} for n in range(2)]
    cause = {**CELL, "np": 2, "cause_id": "c", "share": 0.2, "share_low": 0.15, "share_high": 0.25}
    frames = {
        SEGMENTS.name: declared_rows(SEGMENTS, {**KEY, **CELL, "size": 2, "batch_size": batch}),
        RANKS.name: declared_rows(RANKS, *ranks),
        DEVICE_SAMPLES.name: declared_rows(DEVICE_SAMPLES, *names),
    }
    known: RunAnalysis = finished_analysis(
        run=finished_run(**frames),
        launches=declared_rows(LAUNCHES, {**KEY, "step_time_ns": 1e8}),
        derived={WATERFALL.name: declared_rows(WATERFALL, cause)},
    )
    own = verdict(model="resnet18", np=np, engine="horovod", biggest_loss="x")
    known = replace(known, verdict=replace(own, parts=replace(own.parts, cause_id="c")))
    table = declared_rows(RANK_MACHINE, *rows)
    return [*work_sentences(known, table.astype({"pass_id": str, "segment": str, "measure": str}))]


def test_flops_with_interval_precision_and_mfu() -> None:
    rows = [
        row
        for rank in (0, 1)
        for row in (
            measured("flop_bf16", rank, 39e12),
            measured("flop_fp32", rank, 1e12),
            measured("flop_rate", rank, 400e12, 390e12, 410e12),
            measured("mfu", rank, 0.404, 0.396, 0.412),
        )
    ]
    assert said(rows) == [
        "400 ± 10 TFLOP/s per rank (mean), in fp32 2 %, bf16 98 %: 40.0 TFLOP per step, counted in "
        "one warm-up step.",
        "MFU 40.4 ± 0.8 % of the dense peak (docs/howto/machine.md).",
    ]


def test_an_unknown_device_is_refused_by_name() -> None:
    rows = [
        row
        for rank in (0, 1)
        for row in (
            measured("flop_bf16", rank, 1e9),
            measured("flop_rate", rank, 1e10),
            measured("mfu", rank, NAN),
        )
    ]
    first, second = said(rows, device="NVIDIA GeForce RTX 5090")
    assert first.startswith("10.0 GFLOP/s per rank (mean), in bf16: 1.00 GFLOP per step")
    assert second == "No MFU: no dense peak of NVIDIA GeForce RTX 5090 is known in bf16."


ENERGY = [measured("energy", 0, 600.0), measured("energy", 1, 400.0)]


def test_energy_per_sample_and_step_and_that_of_the_loss() -> None:
    (sentence,) = said(ENERGY)
    assert sentence == (
        "The GPUs draw 1,000 W by their energy counters: 3.12 J per sample, 100 J per step, 24.0 "
        "kWh per day, of which the largest loss of the steps takes 4.80 ± 1.20."
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"batch": 0}, "counters: 100 J per step"),
        ({"gpus": ("a", "a")}, "The GPUs draw 500 W"),
    ],
)
def test_energy_without_a_batch_or_of_a_gpu_that_ranks_share(
    values: dict[str, Any], expected: str
) -> None:
    (sentence,) = said(ENERGY, **values)
    assert expected in sentence


def test_nothing_is_said_where_the_counter_is_missing() -> None:
    assert said(ENERGY[:1]) == []
    assert said(ENERGY, gpus=("a", "")) == []
    assert said([measured("power", 0, 600.0), measured("power", 1, 400.0)]) == []


def test_a_loss_of_another_cell_is_not_held_against_this_energy() -> None:
    (sentence,) = said(ENERGY, np=4)
    assert sentence.endswith("24.0 kWh per day.")
