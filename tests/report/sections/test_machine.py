"""What the machine did to each rank, in the section of every report."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.tables.run_tables import TURNS
from hvdprof.report.sections.machine import machine_sections
from hvdprof.report.sections.section import Section
from hvdprof.rundir.layout import PassPaths
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

S = 1_000_000_000


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


def test_turns_of_other_launches_are_said_to_be_included(tmp_path: Path) -> None:
    values = [{"cpu": 0.2, "core_wait": 0.02}, {"cpu": 0.2, "core_wait": 0.03}]
    plain = one(sections(tmp_path / "plain", values, {}))
    turned = one(sections(tmp_path / "turned", values, {}, takes_turns=True))
    assert "turns" not in plain.caption
    assert "the turns of other launches between them" in turned.caption


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
