"""Rules on what the script itself must take: fp16, accumulation, the buckets of DDP.

No variable sets them. A script that has an argument for one is tuned by that argument; of a script
that has none, hvdprof says so. Tested in ``tests/analyze/tune/test_candidates.py``.
"""

import math
import re
from collections.abc import Iterator, Sequence

from hvdprof import units
from hvdprof.analyze.findings.cell_finding import has_data_phase
from hvdprof.analyze.tune.proposal import Proposal, Untried
from hvdprof.analyze.tune.tuned_job import TunedJob
from hvdprof.model.tuning import Candidate

FP16_FLAGS = ("--fp16-allreduce", "--fp16_allreduce")
PASSES_FLAGS = (
    "--backward-passes-per-step",
    "--backward_passes_per_step",
    "--batches-per-allreduce",
    "--batches_per_allreduce",
)
BUCKET_FLAGS = ("--bucket-cap-mb", "--bucket_cap_mb")

DEFAULT_BUCKET_MB = 25.0
BUCKETS_MB = (5.0, 10.0, 25.0, 50.0, 100.0)
LEAST_EXPOSED = 0.05


def fp16_compression(job: TunedJob) -> Iterator[Proposal]:
    """Gradients of half the size; changes the arithmetic."""
    if not job.is_horovod or job.exposed_share < job.margin:
        return
    if job.finding("fp16-costs"):
        yield Untried("fp16", "This run has measured it, and it is slower.")
        return
    if not job.setting.on_gpus and job.setting.num_hosts == 1:
        yield Untried(
            "fp16",
            "On one host without GPUs the casts cost more than smaller messages save.",
        )
        return
    why = (
        f"{units.byte_size(job.sent_bytes)} per step would become half, and exposed transfer takes "
        f"{units.percent(job.exposed_share)} of the step."
    )
    if job.is_bench:
        yield Candidate(
            name="fp16", options={"compression": "fp16"}, changes_numerics=True, why=why
        )
        return
    yield from _by_switch(job, "fp16", FP16_FLAGS, why, "compression=hvd.Compression.fp16")


def accumulation(job: TunedJob) -> Iterator[Proposal]:
    """Several backward passes per allreduce; changes the batch of an update."""
    if not job.is_horovod or job.exposed_share < LEAST_EXPOSED:
        return
    what = "backward_passes_per_step"
    if job.is_bench:
        yield Untried(what, "The reference models reduce after every backward pass.")
        return
    flag = _flag(job, PASSES_FLAGS)
    if not flag:
        yield _takes_no_argument(job, what, f"{what}=")
        return
    why_not = _uncounted_samples(job)
    if why_not:
        yield Untried(what, why_not)
        return
    present = _value(job.arguments, flag) or 1
    for factor in (2, 4):
        number = round(present * factor)
        yield Candidate(
            name=f"{flag} {number}",
            arguments=(flag, str(number)),
            changes_numerics=True,
            why="Gradients are reduced once per "
            f"{number} backward passes, and exposed transfer takes "
            f"{units.percent(job.exposed_share)} of the step.",
        )


def _uncounted_samples(job: TunedJob) -> str:
    """Why more backward passes per step would not count as more samples; empty where they do."""
    if job.options.get("batch_size") is not None:
        return (
            "With --batch-size the samples per step are fixed, so the gain cannot be measured. "
            "Omit it to try accumulation."
        )
    if not has_data_phase(job.evidence, job.cell):
        return (
            "Without a data loader, the samples of a step are those of its first forward pass, so "
            "the gain cannot be measured."
        )
    return ""


def ddp_buckets(job: TunedJob) -> Iterator[Proposal]:
    """The size of DDP's buckets; a size that changes none of them is not tried."""
    if not job.is_ddp or not job.matters:
        return
    if job.is_bench:
        given = job.evidence.run.manifest.settings.get("fusion_threshold_mb")
        flag, present = "", None if given is None else float(given)
    else:
        flag = _flag(job, BUCKET_FLAGS)
        if not flag:
            yield _takes_no_argument(job, "bucket_cap_mb", "bucket_cap_mb=")
            return
        present = _value(job.arguments, flag)
    whole = job.sent_bytes / 2**20
    now = _num_buckets(whole, present)
    seen = {now}
    for size in BUCKETS_MB:
        number = _num_buckets(whole, size)
        if size == present or number in seen:
            continue
        seen.add(number)
        yield Candidate(
            name=f"bucket_cap_mb={size:g}",
            options={} if flag else {"fusion_threshold_mb": size},
            arguments=(flag, f"{size:g}") if flag else (),
            why=f"{units.byte_size(job.sent_bytes)} of gradients in about {number} buckets instead "
            f"of {now}.",
        )


def _num_buckets(whole_mb: float, size_mb: float | None) -> int:
    """How many buckets hold the gradients; a first one of 1 MiB where no size is given."""
    if size_mb is None:
        return 1 + math.ceil(max(0.0, whole_mb - 1) / DEFAULT_BUCKET_MB)
    return max(1, math.ceil(whole_mb / size_mb))


def _by_switch(
    job: TunedJob, name: str, flags: Sequence[str], why: str, in_code: str
) -> Iterator[Proposal]:
    flag = _flag(job, flags)
    if not flag:
        yield _takes_no_argument(job, name, in_code)
    elif not any(word.partition("=")[0] == flag for word in job.arguments):
        yield Candidate(name=flag, arguments=(flag,), changes_numerics=True, why=why)


def _takes_no_argument(job: TunedJob, name: str, in_code: str) -> Untried:
    if not job.means.script_text:
        return Untried(name, f"Whether the script takes an argument for it ({in_code}) is unknown.")
    return Untried(name, f"The script takes no argument for it; change {in_code} in its code.")


def _flag(job: TunedJob, flags: Sequence[str]) -> str:
    """The first of these arguments that the source of the script names; empty where none."""
    text = job.means.script_text
    return next((flag for flag in flags if re.search(rf"['\"]{flag}['\"]", text)), "")


def _value(arguments: Sequence[str], flag: str) -> float | None:
    """The number behind the last ``--flag`` of a command line; None where it is not there."""
    found = None
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name != flag:
            continue
        text = value if equals else following
        found = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else found
    return found
