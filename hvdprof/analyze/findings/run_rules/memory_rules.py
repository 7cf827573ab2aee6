"""Rules on memory and GPU errors, from samples of the machine.

Tested in ``tests/analyze/findings/test_memory_rules.py``.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import advice, sentences
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding
from hvdprof.analyze.findings.machine_evidence import LEAST_SWAP
from hvdprof.model.schema import as_text
from hvdprof.model.tables.sample_tables import HOST_SAMPLES, RANK_MACHINE
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.recording.sample_format import (
    AVAILABLE,
    LEAST_GROWTH_BYTES,
    LEAST_GROWTH_SHARE,
    MAJOR_FAULTS,
    RSS,
    SWAP_IN,
    SWAP_OUT,
    TORCH_ALLOCATED,
    TORCH_PEAK,
    TORCH_RETRIES,
    XID,
)

MOST_FAULTS = 0.9
"""From this share of all major faults of ranks on, swap is one rank's."""

STILL_GROWING = 0.5
"""Of the mean growth: where the last is less, a cache fills."""

SOON_STEPS = 100_000
UNEQUAL = 1.2

_GROWS = {
    RSS: advice(
        "look for what stays from step to step on {ranks}: losses with their graph, lists of "
        "outputs, caches",
        "Store losses by .item() or .detach(). To find the line that allocates, use `tracemalloc` "
        "or `memray`. A DataLoader whose dataset holds Python objects grows as its workers read "
        "them: use arrays.",
    ),
    TORCH_ALLOCATED: advice(
        "look for tensors that stay from step to step on {ranks}: losses with their graph, lists "
        "of outputs",
        "Store losses by .item() or .detach(). To find the lines that allocate, call "
        "torch.cuda.memory._record_memory_history().",
    ),
}
_SWAP = advice(
    "use less memory on {host}: fewer DataLoader workers, smaller caches, fewer ranks",
    "A rank that needs a page from swap waits for the disk.",
)
_RETRIES = advice(
    "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True on all ranks",
    "Or use a smaller batch: each retry frees torch's cache and waits for the GPU.",
    command="export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
)
_EVEN_MEMORY = advice(
    "look for what only {ranks} puts on the GPU: a checkpoint loaded without map_location, "
    "metrics of all ranks, other processes' contexts",
    "The fullest GPU limits the batch of all.",
)
_XID = advice(
    "look up the XID in NVIDIA's list and `dmesg` on {host}, and take the GPU out of the job",
    command="dmesg | grep -i xid",
)


def memory_grows(evidence: Evidence) -> Iterator[Finding]:
    """Memory of ranks that grows over the steady steps, and has not ended to."""
    rows = evidence.machine_rows
    for measure, general in _GROWS.items():
        own = rows[(rows["measure"] == measure).to_numpy()]
        grown = own["high"] - own["low"]
        grows = (
            (own["growth_low"] > 0)
            & (own["last_growth"] >= STILL_GROWING * own["growth"])
            & (grown >= LEAST_GROWTH_BYTES)
            & (grown >= LEAST_GROWTH_SHARE * own["low"])
        )
        found = own[grows]
        if found.empty:
            continue
        worst = found.iloc[int(found["growth"].to_numpy().argmax())]
        left = _steps_left(evidence, found, str(worst["pass_id"])) if measure == RSS else None
        what = "memory (rss)" if measure == RSS else "GPU memory (torch allocated)"
        ranks = ranks_named(found["rank"])
        yield Finding(
            "memory-grows",
            "warning" if left is not None and left < SOON_STEPS else "note",
            ranks,
            f"{what} that grows",
            sentences(
                f"The {what} of rank {worst['rank']} grows by {_bytes(worst['growth'])} per step "
                f"({_bytes(worst['growth_low'])} to {_bytes(worst['growth_high'])}), from "
                f"{_bytes(worst['low'])} to {_bytes(worst['high'])} in {worst['pass_id']}.",
                f"At this rate the host has no memory available after about {units.count(left)} "
                "steps; the limit of a container may come sooner."
                if left is not None
                else "",
            ),
            general.formatted(ranks=ranks),
            "likely",
        )


def host_swaps(evidence: Evidence) -> Iterator[Finding]:
    """Hosts that wrote to or read from swap while they trained."""
    samples = as_text(evidence.table(HOST_SAMPLES.name), ["measure", "pass_id"])
    if samples.empty:
        return
    amounts = samples.assign(bytes=samples["mean"] * samples["duration_ns"] / 1e9)
    sums = amounts.pivot_table(
        index=["pass_id", "rank"], columns="measure", values=["bytes", "duration_ns"], aggfunc="sum"
    )
    # Read back while training: pages that are only written out slow no rank down.
    if ("bytes", SWAP_IN) not in sums:
        return
    lengths_s = sums["duration_ns", SWAP_IN] / 1e9
    rates = sums["bytes", SWAP_IN] / lengths_s
    place = int(np.nan_to_num(rates.to_numpy(dtype=float)).argmax())
    read = float(rates.iloc[place])
    written = float((sums["bytes", SWAP_OUT] / lengths_s).iloc[place])
    if read < LEAST_SWAP:
        return
    pass_id, rank = (sums.index.get_level_values(level)[place] for level in ("pass_id", "rank"))
    host = _host_of(evidence, str(pass_id), int(rank))
    whose = _faulting_rank(evidence, str(pass_id), host)
    yield Finding(
        "host-swaps",
        "warning",
        host,
        f"swapping while training{f', rank {whose}' if whose is not None else ''}",
        sentences(
            f"{host} read {_bytes(read)} per second from swap and wrote {_bytes(written)}, mean of "
            f"{pass_id}.",
            f"Rank {whose} alone read {units.percent(MOST_FAULTS, 0)} or more of the pages that "
            "ranks read from disk."
            if whose is not None
            else "",
        ),
        _SWAP.formatted(host=host),
        "certain",
    )


def allocation_retries(evidence: Evidence) -> Iterator[Finding]:
    """GPUs whose memory was full, so that torch freed its cache and tried again."""
    rows = evidence.machine_rows
    own = rows[((rows["measure"] == TORCH_RETRIES) & (rows["mean"] > 0)).to_numpy()]
    if own.empty:
        return
    worst = own.iloc[int(own["mean"].to_numpy().argmax())]
    ranks = ranks_named(own["rank"])
    yield Finding(
        "allocation-retries",
        "warning",
        ranks,
        "GPU memory full (allocation retries)",
        f"On {ranks} cudaMalloc failed in the steady steps, and torch freed its cache and tried "
        f"again: {60 * float(worst['mean']):.2g} times per minute on rank {worst['rank']}.",
        _RETRIES,
        "certain",
    )


def unequal_memory(evidence: Evidence) -> Iterator[Finding]:
    """A rank that needs much more GPU memory than the others."""
    rows = evidence.machine_rows
    own = rows[(rows["measure"] == TORCH_PEAK).to_numpy()]
    found = own[(own["high"] >= UNEQUAL * own["others"]).to_numpy()]
    if found.empty:
        return
    worst = found.iloc[int(found["high"].to_numpy().argmax())]
    rank = f"rank {worst['rank']}"
    yield Finding(
        "unequal-memory",
        "note",
        rank,
        "unequal GPU memory",
        f"The peak of {rank} is {_bytes(worst['high'])}, that of the others "
        f"{_bytes(worst['others'])} in the mean (torch allocated).",
        _EVEN_MEMORY.formatted(ranks=rank),
        "certain",
    )


def gpu_errors(evidence: Evidence) -> Iterator[Finding]:
    """XID errors that the driver reported while the job ran."""
    rows = evidence.table(RANK_MACHINE.name)
    own = rows[((rows["measure"].astype(str) == XID) & (rows["high"] > 0)).to_numpy()]
    for rank, of_rank in own.groupby("rank"):
        last = of_rank.iloc[-1]
        host = _host_of(evidence, str(last["pass_id"]), int(str(rank)))
        yield Finding(
            "gpu-error",
            "error",
            f"rank {rank}",
            f"GPU error (XID {last['high']:.0f})",
            f"The driver reported XID {last['high']:.0f} on the GPU of rank {rank} ({host}) in "
            f"{last['pass_id']}.",
            _XID.formatted(host=host),
            "certain",
        )


def _faulting_rank(evidence: Evidence, pass_id: str, host: str) -> int | None:
    """The rank on a host with nearly all major faults of a pass; None without one."""
    rows = as_text(evidence.table(RANK_MACHINE.name), ["pass_id", "measure"])
    own = rows[((rows["pass_id"] == pass_id) & (rows["measure"] == MAJOR_FAULTS)).to_numpy()]
    faults = own.groupby("rank")["mean"].mean()
    if len(faults) < 2 or not faults.max() >= MOST_FAULTS * faults.sum() > 0:
        return None
    rank = int(str(faults.idxmax()))
    return rank if _host_of(evidence, pass_id, rank) == host else None


def _steps_left(evidence: Evidence, found: pd.DataFrame, pass_id: str) -> float | None:
    """Steps until the memory of the host of a pass is used up, two digits; None where not known.

    All ranks of the pass that grow are taken to be on the host with least memory.
    """
    samples = evidence.table(HOST_SAMPLES.name)
    is_own = (samples["measure"].astype(str) == AVAILABLE) & (
        samples["pass_id"].astype(str) == pass_id
    )
    own = samples[is_own.to_numpy()].sort_values("start_ns")
    if len(set(own["rank"])) != 1:
        return None
    rate = float(found.loc[found["pass_id"] == pass_id, "growth"].sum())
    return float(f"{float(own['median'].iloc[-1]) / rate:.1e}")


def _host_of(evidence: Evidence, pass_id: str, rank: int) -> str:
    ranks = evidence.run.ranks
    own = ranks[((ranks["pass_id"].astype(str) == pass_id) & (ranks["rank"] == rank)).to_numpy()]
    names = [name for name in own["hostname"].astype(str) if name]
    return names[0] if names else f"the host of rank {rank}"


def _bytes(value: object) -> str:
    return units.byte_size(float(str(value)))
