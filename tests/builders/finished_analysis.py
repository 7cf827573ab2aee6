"""Finished analyses built straight from the declared tables: a test states only what matters."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import FailedSegment, Run, RunAnalysis, Verdict, VerdictParts
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.scaling_tables import LAUNCHES, LOSSES, SCALING
from hvdprof.rundir.manifest import Manifest, PassRecord, SegmentRecord, Skipped
from hvdprof.rundir.plan import Segment

NAN = float("nan")

PLAIN = {"compression": "none", "reduction": "average"}
HEADLINE = (
    "resnet18 on 2 ranks: 84.2 ± 2.3 % scaling efficiency. Largest loss: exposed transfer, 3.50 ms "
    "per step."
)
SENTENCE = (
    "resnet18 on 2 ranks: 84.2 ± 2.3 % scaling efficiency against torch np=1. "
    "Largest loss: exposed transfer, 3.50 ms per step (11.3 %)."
)


def cell(**values: Any) -> dict[str, Any]:
    """A row of SCALING: resnet18 on 2 ranks unless said otherwise."""
    row: dict[str, Any] = {
        "model": "resnet18",
        "np": 2,
        "engine": "horovod",
        **PLAIN,
        "batch_size": 16,
        "samples_per_s": 1031.0,
        "samples_per_s_low": 1003.0,
        "samples_per_s_high": 1059.0,
        "step_time_median_ns": 31.0e6,
        "step_time_p95_ns": 33.4e6,
        "efficiency": 0.842,
        "efficiency_low": 0.819,
        "efficiency_high": 0.865,
        "karp_flatt": NAN,
        "baseline": "torch np=1",
        "blocked_ns": 3.5e6,
        "blocked_share": 0.113,
        "trace_overhead": 0.012,
        "trace_overhead_low": 0.008,
        "trace_overhead_high": 0.016,
        "final_loss": 0.412,
        "sent_bytes": 46_758_048,
        "num_launches": 3,
        "num_steps": 180,
        "oversubscribed": False,
        "pinned": True,
    }
    row |= values
    samples = dict.fromkeys(("batch_size_low", "batch_size_high"), row["batch_size"])
    return samples | row


def torch_cell(**values: Any) -> dict[str, Any]:
    """The row of plain PyTorch, to which the others refer."""
    return cell(
        **{
            "np": 1,
            "engine": "torch",
            "samples_per_s": 612.0,
            "samples_per_s_low": 607.0,
            "samples_per_s_high": 617.0,
            "step_time_median_ns": 26.1e6,
            "step_time_p95_ns": 27.0e6,
            "efficiency": 1.0,
            "efficiency_low": NAN,
            "efficiency_high": NAN,
            "blocked_ns": 0.0,
            "blocked_share": 0.0,
            "trace_overhead": NAN,
            "trace_overhead_low": NAN,
            "trace_overhead_high": NAN,
        }
        | values
    )


def two_toggles() -> list[dict[str, Any]]:
    """A model as `hvdprof bench --np 1,2,4 --fp16-allreduce --use-adasum` would show it."""
    return [
        torch_cell(),
        cell(
            np=1,
            samples_per_s=601.0,
            samples_per_s_low=595.0,
            samples_per_s_high=607.0,
            step_time_median_ns=26.6e6,
            step_time_p95_ns=27.6e6,
            efficiency=0.982,
            efficiency_low=0.969,
            efficiency_high=0.995,
            blocked_ns=0.04e6,
            blocked_share=0.0015,
        ),
        cell(),
        cell(
            compression="fp16",
            samples_per_s=1_098.0,
            samples_per_s_low=1_066.0,
            samples_per_s_high=1_130.0,
            step_time_median_ns=29.1e6,
            step_time_p95_ns=30.9e6,
            efficiency=0.897,
            efficiency_low=0.871,
            efficiency_high=0.923,
            blocked_ns=2.21e6,
            blocked_share=0.0759,
            final_loss=0.414,
        ),
        cell(
            reduction="adasum",
            samples_per_s=702.0,
            samples_per_s_low=641.0,
            samples_per_s_high=744.0,
            step_time_median_ns=45.6e6,
            step_time_p95_ns=61.2e6,
            efficiency=0.574,
            efficiency_low=0.524,
            efficiency_high=0.608,
            blocked_ns=18.6e6,
            blocked_share=0.408,
            trace_overhead=0.034,
            trace_overhead_low=-0.021,
            trace_overhead_high=0.089,
            final_loss=0.398,
        ),
        cell(
            np=4,
            samples_per_s=1_204.0,
            samples_per_s_low=1_090.0,
            samples_per_s_high=1_318.0,
            step_time_median_ns=53.1e6,
            step_time_p95_ns=77.0e6,
            efficiency=0.492,
            efficiency_low=0.445,
            efficiency_high=0.538,
            blocked_ns=22.9e6,
            blocked_share=0.431,
            trace_overhead=0.051,
            trace_overhead_low=0.002,
            trace_overhead_high=0.1,
            oversubscribed=True,
            pinned=False,
        ),
    ]


def loss_rows(cell_: dict[str, Any], **parts_ms: float) -> list[dict[str, Any]]:
    """Rows of LOSSES for one cell, milliseconds by part."""
    step_ns = cell_["step_time_median_ns"]
    return [
        {key: cell_[key] for key in CELL_KEY}
        | {"part": part, "lost_ns": lost * 1e6, "lost_share": lost * 1e6 / step_ns}
        for part, lost in parts_ms.items()
    ]


def typical_losses() -> list[dict[str, Any]]:
    """Losses of the Horovod cells of ``two_toggles`` on 2 ranks."""
    parts = {
        "data": 0.1,
        "forward": 0.4,
        "backward": 0.7,
        "blocked": 3.5,
        "before_update": 0.02,
        "optimizer": 0.03,
    }
    adasum = {"data": 0.1, "forward": 0.5, "backward": 0.3, "blocked": 18.6, "optimizer": 0.0}
    return [
        *loss_rows(cell(), **parts, outside=0.05, residual=0.1),
        *loss_rows(
            cell(reduction="adasum", step_time_median_ns=45.6e6),
            **adasum,
            outside=-0.2,
            residual=0.2,
        ),
    ]


def verdict(**values: Any) -> Verdict:
    """The verdict on ``cell()``; ``caveat`` is the text of one."""
    fields: dict[str, Any] = {
        "sentence": SENTENCE,
        "parts": VerdictParts(headline=HEADLINE),
        "model": "resnet18",
        "np": 2,
        "efficiency": 0.842,
        "efficiency_low": 0.819,
        "efficiency_high": 0.865,
        "biggest_loss": "exposed transfer",
        "biggest_loss_share": 0.113,
    }
    caveat = values.pop("caveat", "")
    fields["caveats"] = (Note(NoteCode.OF_FILE, caveat),) if caveat else ()
    return Verdict(**(fields | values))


def skipped(reason: str, **cell_: Any) -> Skipped:
    """A cell that could not run."""
    values: dict[str, Any] = {"model": "resnet18", "size": 1, "compression": "fp16"}
    return Skipped(reason=reason, **({"reduction": "average"} | values | cell_))


def failed(**values: Any) -> FailedSegment:
    """A cell that lost a rank."""
    fields: dict[str, Any] = {
        "pass_id": "07-np2-throughput-r2",
        "model": "mnist",
        "np": 2,
        "engine": "horovod",
        **PLAIN,
        "reason": "rank 1 was killed by SIGKILL",
        "rank": 1,
        "exit_code": 137,
        "signal": "SIGKILL",
        "lines": ("[1]<stderr>: out of memory", "Process 1 exit with status code 137."),
    }
    return FailedSegment(**(fields | values))


def finding(**values: Any) -> dict[str, Any]:
    """A row of FINDINGS, with the line that shows it."""
    row: dict[str, Any] = {
        "id": "nccl-p2p-disabled",
        "severity": "warning",
        "subject": "node1",
        "title": "Peer access between GPUs disabled",
        "evidence": "P2P is off on node1.",
        "lead": "",
        "quote": "node1:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.",
        "file": "nccl.log",
        "line": 7,
        "action": "Unset NCCL_P2P_DISABLE.",
        "fix": "unset NCCL_P2P_DISABLE",
        "command": "unset NCCL_P2P_DISABLE",
        "cause_id": "",
        "confidence": "certain",
        "model": "",
        "np": None,
        "engine": "",
        "cost_ns": NAN,
        "cost_low_ns": NAN,
        "cost_high_ns": NAN,
        "cost_share": NAN,
        "gain_share": NAN,
        "job_share": NAN,
        "code_file": "",
        "code_line": None,
        "code_function": "",
    }
    row |= values
    title = str(row["title"])
    return {"phrase": f"{title[0].lower()}{title[1:]}"} | row


def segment(id_: str, **values: Any) -> Segment:
    """A segment as planned."""
    fields: dict[str, Any] = {
        "engine": "horovod",
        "model": "resnet18",
        **PLAIN,
        "batch_size": 16,
        "image_size": 32,
        "num_warmup_batches": 5,
        "num_steps": 60,
        "max_seconds": None,
        "timeline": False,
    }
    return Segment(id=id_, **(fields | values))


def pass_record(id_: str, segments: Sequence[Segment], **values: Any) -> PassRecord:
    """A pass that ended well."""
    fields: dict[str, Any] = {
        "mode": "trace",
        "size": 2,
        "repeat": 1,
        "controller": "mpi",
        "oversubscribed": False,
        "pinned": True,
        "segments": [SegmentRecord(segment=one, status="done") for one in segments],
        "status": "done",
        "exit_code": 0,
    }
    return PassRecord(id=id_, **(fields | values))


def manifest(**values: Any) -> Manifest:
    """The manifest of a finished run on one host."""
    fields: dict[str, Any] = {
        "schema_version": 1,
        "hvdprof_version": "0.1.0",
        "name": "quick",
        "created_at": "2026-11-20T22:48:41+00:00",
        "command": ["hvdprof", "bench", "--preset", "quick"],
        "settings": {"num_threads": 1},
        "options": {"scaling": "weak"},
        "environment": {"OMP_NUM_THREADS": "1"},
        "versions": {"python": "3.11.2", "torch": "2.13.0", "horovod": "0.28.1"},
        "hosts": [
            {"hostname": "node1", "num_cores": 2, "cpu_model": "AMD EPYC", "gpus": [], "nics": []}
        ],
        "git": None,
        "passes": [],
        "skipped": [],
        "status": "done",
    }
    return Manifest(**(fields | values))


def run(folder: Path = Path("runs/20261120-224841-quick"), **values: Any) -> Run:
    """A run without recordings, unless tables are given."""
    names = {field.name for field in fields(Run)}
    others: dict[str, Any] = {name: value for name, value in values.items() if name in names}
    frames = {name: frame for name, frame in values.items() if name not in names}
    return Run(folder, frames=frames, **({"manifest": manifest(), "notes": ()} | others))


def analysis(
    rows: Sequence[dict[str, Any]] | None = None,
    losses: Sequence[dict[str, Any]] = (),
    **values: Any,
) -> RunAnalysis:
    """A finished analysis; without rows the two cells of a small good run."""
    fields: dict[str, Any] = {
        "run": run(),
        "verdict": verdict(),
        "launches": LAUNCHES.empty(),
        "scaling": SCALING.frame([torch_cell(), cell()] if rows is None else list(rows)),
        "losses": LOSSES.frame(list(losses)),
        "skipped": (),
        "failed": (),
    }
    fields["warning_notes"] = tuple(
        Note(NoteCode.MEASUREMENT, text) for text in values.pop("warnings", ())
    )
    return RunAnalysis(**(fields | values))


def full_analysis(**values: Any) -> RunAnalysis:
    """Everything at once: toggles, an oversubscribed size, skipped, failed, findings, warnings."""
    no_op = "fp16 compression does nothing at np=1: Horovod sends nothing"
    fields: dict[str, Any] = {
        "skipped": (
            skipped(no_op),
            skipped(no_op, model="mnist"),
            skipped("Adasum needs a power of two ranks", size=3, compression="none"),
        ),
        "failed": (failed(),),
        "findings": FINDINGS.frame([finding()]),
        "warnings": (
            "np=4 on 2 cores is oversubscribed: its numbers say nothing about scaling.",
            "Other processes kept 0.6 cores busy during 03-np2-throughput-r1.",
        ),
    }
    return analysis(two_toggles(), typical_losses(), **(fields | values))
