"""Verdict and facts of an export of Nsight Systems: exposed communication of each GPU."""

from collections.abc import Sequence

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.next_recording import torch_recording_command
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.file_page import Fact, FileVerdict, Unanswered

_MOST_LINES = 8
_WITH_STEPS = 'with torch.cuda.nvtx.range(f"step {step}"): ...'
_WITH_PAYLOADS = (
    "nsys export --type sqlite --include-blobs true --force-overwrite true REPORT.nsys-rep"
)


def nsys_verdict(gpus: pd.DataFrame) -> FileVerdict:
    """The GPU with the most exposed communication; empty without an export.

    Args:
        gpus: Rows of NSYS_GPUS of one file.
    """
    if gpus.empty:
        return FileVerdict("")
    if not int(gpus["num_nccl_kernels"].sum()):
        return FileVerdict("No NCCL kernels were recorded: this export shows no communication.")
    share = _exposed_shares(gpus)
    row = gpus.iloc[int(share.to_numpy().argmax())].to_dict()
    hidden = 1 - float(row["exposed_ns"]) / max(float(row["communicating_ns"]), 1.0)
    idle = float(row["idle_ns"]) / max(float(row["span_ns"]), 1.0)
    none_runs = (
        f" No kernel runs in {units.percent(idle)} of the time." if idle > share.max() else ""
    )
    which = "" if len(gpus) == 1 else f" on {_gpu(row)}, the most of {len(gpus)} GPUs"
    return FileVerdict(
        f"Exposed communication: {units.percent(float(share.max()))} of the recorded time{which} "
        f"({units.milliseconds(float(row['exposed_ns']))}); computation hides "
        f"{units.percent(hidden)} of the NCCL time.{none_runs}",
        "NCCL kernels include waiting for other ranks.",
    )


def nsys_facts(gpus: pd.DataFrame) -> list[Fact]:
    """What each GPU did."""
    lines = [
        f"{_gpu(row)}: span {_ms(row['span_ns'])}, computation {_ms(row['computing_ns'])}, NCCL "
        f"{_ms(row['communicating_ns'])}, exposed {_ms(row['exposed_ns'])}, idle "
        f"{_ms(row['idle_ns'])}"
        for row in gpus.head(_MOST_LINES).to_dict("records")
    ]
    calls = gpus.drop_duplicates(["pid"])["num_nccl_calls"]
    return [
        Fact("num_gpus", "GPUs recorded", len(gpus)),
        Fact("num_kernels", "kernels", int(gpus["num_kernels"].sum())),
        Fact("num_nccl_calls", "NCCL calls (NVTX)", int(calls.sum())),
        # The verdict and the line of its GPU state it.
        Fact("exposed_share", "", _most_exposed(gpus), "ratio"),
        Fact("each_gpu", "time by GPU", _first_lines(lines, len(gpus), "GPU")),
    ]


def _most_exposed(gpus: pd.DataFrame) -> float | None:
    """Largest share of the recorded time that is exposed communication; None without NCCL."""
    if not int(gpus["num_nccl_kernels"].sum()):
        return None
    return float(_exposed_shares(gpus).max())


def _exposed_shares(gpus: pd.DataFrame) -> pd.Series:
    return gpus["exposed_ns"] / gpus["span_ns"].clip(lower=1)


def _first_lines(lines: Sequence[str], number: int, noun: str = "") -> str:
    """The first lines as one text, and how many of all are not among them."""
    shown = list(lines[:_MOST_LINES])
    if more := number - len(shown):
        shown.append(f"and {units.counted(more, noun) if noun else more} more")
    return "\n".join(shown)


def nsys_kernel_facts(kernels: pd.DataFrame) -> list[Fact]:
    """NCCL kernels by name, the longest first."""
    ordered = kernels.sort_values("total_ns", ascending=False, kind="stable")
    lines = [
        f"{row['name']} on {_gpu(row)}: {row['number']}, median {_ms(row['median_ns'])}, total "
        f"{_ms(row['total_ns'])}, exposed {_ms(row['exposed_ns'])}"
        for row in ordered.head(_MOST_LINES).to_dict("records")
    ]
    return [Fact("each_nccl_kernel", "NCCL kernels", _first_lines(lines, len(ordered)))]


def nsys_step_facts(steps: pd.DataFrame) -> list[Fact]:
    """Steps of each GPU without its first: medians of length, communication and exposed part."""
    lines, exposed = [], []
    for _, own in steps.groupby(["pid", "device"], sort=True):
        # The first step holds start-up.
        steady = own.sort_values("start_ns").iloc[1:] if len(own) > 1 else own
        medians = steady[["host_ns", "communicating_ns", "exposed_ns"]].median()
        exposed.append(float(medians["exposed_ns"]))
        total = float(steady["communicating_ns"].sum())
        hidden = float(steady["overlapped_ns"].sum()) / total if total else 0.0
        lines.append(
            f"{_gpu(own.iloc[0].to_dict())}: {units.counted(len(steady), 'step')}, median "
            f"{_ms(medians['host_ns'])}, NCCL {_ms(medians['communicating_ns'])}, exposed "
            f"{_ms(medians['exposed_ns'])}, {units.percent(hidden)} of NCCL overlapped"
        )
    by_gpu = _first_lines(lines, len(lines), "GPU")
    return [
        Fact("exposed_step_ns", "", max(exposed), "ns"),
        Fact("each_gpu_step", "steps by GPU, without the first", by_gpu),
    ]


def nsys_call_facts(calls: pd.DataFrame) -> list[Fact]:
    """NCCL calls by function, size and communicator size, those that move most first."""
    known = calls[calls["message_bytes"].notna().to_numpy()]
    if known.empty:
        return []
    keys = ["function", "message_bytes", "num_ranks"]
    groups = known.groupby(keys, observed=True, dropna=False)["number"].sum().reset_index()
    moved = groups["message_bytes"].astype("float64") * groups["number"]
    ordered = groups.iloc[moved.to_numpy().argsort(kind="stable")[::-1]]
    lines = [
        f"{row['function']} of {units.byte_size(row['message_bytes'])}{_of_ranks(row)}: "
        f"{units.counted(int(row['number']), 'call')}"
        for row in ordered.head(_MOST_LINES).to_dict("records")
    ]
    by_size = _first_lines(lines, len(ordered))
    return [Fact("each_nccl_call", "NCCL calls by message size", by_size)]


def nsys_calls_unanswered(calls: pd.DataFrame) -> tuple[Unanswered, ...]:
    """The export that holds NCCL's payloads, where this one holds none."""
    if calls.empty or calls["message_bytes"].notna().any():
        return ()
    return (Unanswered("message sizes, ranks and communicators of the NCCL calls", _WITH_PAYLOADS),)


def nsys_unanswered(gpus: pd.DataFrame) -> tuple[Unanswered, ...]:
    """What an export does not hold: who waits, without ranks; steps where NVTX marks none."""
    if gpus.empty:
        return ()
    command = torch_recording_command(len(gpus) if len(gpus) > 1 else None)
    waits = [Unanswered("which rank the others wait for (NCCL kernels include waiting)", command)]
    if gpus["rank"].notna().all():
        waits = []
    if gpus["num_steps"].any():
        return tuple(waits)
    steps = "exposed communication per step: the split needs NVTX ranges of steps"
    return (*waits, Unanswered(steps, _WITH_STEPS))


def _of_ranks(row: FrameRow) -> str:
    return "" if is_missing(row["num_ranks"]) else f" on {int(row['num_ranks'])} ranks"


def _gpu(row: FrameRow) -> str:
    known = [] if is_missing(row["rank"]) else [f"rank {int(row['rank'])}"]
    known += [f"pid {row['pid']}"] if row["pid"] else []
    return f"GPU {row['device']} ({', '.join(known)})" if known else f"GPU {row['device']}"


def _ms(duration_ns: float) -> str:
    return units.milliseconds(float(duration_ns))
