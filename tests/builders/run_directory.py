"""Synthetic run directories with known truth: a test states only what matters to it.

    write_run(tmp_path, [PassSpec(size=1, segments=[SegmentSpec(parts_ms=typical_parts(10))]),
                         PassSpec(size=2, segments=[SegmentSpec(parts_ms=typical_parts(12))])])

All times are true times of rank 0's clock; the recorder files are written as the host of each rank
would have seen them, so that an alignment must undo the offsets. Lengths broadcast to one value a
rank and step: a number, ``[steps]`` or ``[ranks, steps]``.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hvdprof.rundir.layout import PassPaths, RunPaths
from hvdprof.rundir.manifest import Manifest, PassRecord, SegmentRecord, Skipped
from hvdprof.rundir.plan import Plan
from tests.builders.recorder_lines import host_of, recorder_lines
from tests.builders.run_spec import (
    FIRST_STEP_NS,
    PassSpec,
    SegmentSpec,
    segment_length_ns,
    typical_parts,
)
from tests.builders.timeline_text import timeline_text

__all__ = ["PassSpec", "SegmentSpec", "host_of", "skipped", "typical_parts", "write_run"]


def write_run(folder: Path, passes: Sequence[PassSpec], **manifest_fields: Any) -> Path:
    """Write a run directory and return it; ``manifest_fields`` replace those of the manifest."""
    records = []
    for number, spec in enumerate(passes, start=1):
        pass_id = f"{number:02d}-np{spec.size}-{spec.mode}-r{spec.repeat}"
        records.append(_pass_record(spec, pass_id))
        _write_pass(spec, pass_id, RunPaths(folder).of_pass(pass_id))
    values: dict[str, Any] = {
        "schema_version": 1,
        "hvdprof_version": "0.0.0",
        "name": "synthetic",
        "created_at": "2026-11-20T22:48:41+00:00",
        "command": ["hvdprof", "bench"],
        "settings": {"scaling": "weak", "num_threads": 1},
        "environment": {},
        "versions": {"python": "3.11.2", "torch": "2.13.0", "horovod": "0.28.1"},
        "hosts": [host_of("node1")],
        "git": None,
        "passes": records,
        "skipped": [],
        "status": "done",
    }
    Manifest(**(values | manifest_fields)).write(RunPaths(folder))
    return folder


def skipped(reason: str, **cell: Any) -> Skipped:
    """A cell that could not run."""
    values: dict[str, Any] = {
        "model": "mnist",
        "size": 3,
        "compression": "none",
        "reduction": "adasum",
    }
    return Skipped(reason=reason, **(values | cell))


def _pass_record(spec: PassSpec, pass_id: str) -> PassRecord:
    return PassRecord(
        id=pass_id,
        mode=spec.mode,
        size=spec.size,
        repeat=spec.repeat,
        controller="gloo",
        oversubscribed=spec.oversubscribed,
        pinned=spec.pinned,
        segments=[
            SegmentRecord(segment=one.planned(), status=one.status, failure=one.failure)
            for one in spec.segments
        ],
        status=spec.status,
        exit_code=0,
        duration_s=10.0,
        started_at="2026-11-20T22:48:45+00:00",
        other_cpu_cores=spec.other_cpu_cores,
        steal_share=spec.steal_share,
    )


def _write_pass(spec: PassSpec, pass_id: str, paths: PassPaths) -> None:
    Plan(
        schema_version=1,
        pass_id=pass_id,
        mode=spec.mode,
        size=spec.size,
        num_threads=1,
        pin_cores=spec.pinned,
        device="cpu",
        data="synthetic",
        data_dir=None,
        seed=0,
        segments=[one.planned() for one in spec.segments],
    ).write(paths.plan)
    paths.stdout.write_text("", encoding="utf-8")
    paths.stderr.write_text("", encoding="utf-8")
    paths.recorder_folder.mkdir(parents=True)
    for rank in set(range(spec.size)) - set(spec.missing_ranks):
        lines = [json.dumps(line) + "\n" for line in recorder_lines(spec, rank)]
        paths.recorder_file(rank).write_text("".join(lines), encoding="utf-8")
    start_ns = FIRST_STEP_NS
    for one in spec.segments:
        if one.timeline:
            paths.timeline(one.id).parent.mkdir(exist_ok=True)
            paths.timeline(one.id).write_text(timeline_text(one, spec.size, start_ns))
        start_ns += segment_length_ns(one, spec.size)
