"""Rules on arguments of DDP: size of buckets, views, static graph, unused parameters.

A variable that the recorder reads gives the argument to an unmodified script
(``rundir.launch_format``). Reference models take the size of buckets as an option, and a script
that has an argument for it is tuned by that argument.
"""

from collections.abc import Iterator

from hvdprof import units
from hvdprof.analyze.communication.ddp_buckets import num_buckets
from hvdprof.analyze.tune.proposal import Proposal, Untried
from hvdprof.analyze.tune.script_rules import flag_of, value_of
from hvdprof.analyze.tune.tuned_job import TunedJob
from hvdprof.model.results.tuning import Candidate
from hvdprof.rundir.launch_format import (
    BUCKET_CAP,
    BUCKET_VIEW,
    DDP_ARGUMENTS,
    DEFAULT,
    FIND_UNUSED,
    STATIC_GRAPH,
    DdpFacts,
)

BUCKET_FLAGS = ("--bucket-cap-mb", "--bucket_cap_mb")
BUCKET_OPTION = "fusion_threshold_mb"

BUCKETS_MB = (5.0, 10.0, 25.0, 50.0, 100.0)
SMALLEST_PIECE_MB = 0.5
"""Smaller buckets cost more latency than they can cover."""

LEAST_COPIED_BYTES = 2**20
"""Copies of fewer gradient bytes take no time that matters."""


def buckets(job: TunedJob) -> Iterator[Proposal]:
    """The size of DDP's buckets; a size that changes none of them is not tried.

    A size that the user set is always undone, however little the ranks are blocked.
    """
    if not job.is_ddp:
        return
    given = given_cap(job)
    if isinstance(given, Untried):
        if job.matters:
            yield given
        return
    present, flag = given
    whole = job.sent_bytes / 2**20
    now = _num_buckets(job, present)
    seen = {now}
    sizes: list[float | None] = [*BUCKETS_MB, *_pieces(whole)] if job.matters else []
    if present is not None and not flag and not job.is_bench:
        sizes.insert(0, None)
    for size in sizes:
        number = _num_buckets(job, size)
        if size == present or number in seen:
            continue
        seen.add(number)
        text = DEFAULT if size is None else f"{size:g}"
        why = (
            f"{units.byte_size(job.sent_bytes)} of gradients in about "
            f"{units.counted(number, 'bucket')} instead of {now}."
        )
        yield Candidate(
            name=f"bucket_cap_mb={text}",
            environment={} if flag or job.is_bench else {BUCKET_CAP: text},
            options={BUCKET_OPTION: float(text)} if job.is_bench else {},
            arguments=(flag, text) if flag else (),
            why=why,
        )


def given_cap(job: TunedJob) -> tuple[float | None, str] | Untried:
    """The present size in MiB, None for DDP's own, and the script's argument for it if any."""
    if job.is_bench:
        given = job.evidence.run.manifest.options.get(BUCKET_OPTION)
        return (None if given is None else float(given)), ""
    flag = flag_of(job, BUCKET_FLAGS)
    if flag:
        return value_of(job.arguments, flag), flag
    facts = job.evidence.run.ddp
    if facts is None:
        return Untried("bucket_cap_mb", "How the script calls DistributedDataParallel is unknown.")
    if facts.has_cap_list:
        return Untried("bucket_cap_mb", "The script gives a size for each bucket.")
    return facts.bucket_cap_mb, ""


def _num_buckets(job: TunedJob, size_mb: float | None) -> int:
    return num_buckets(job.sent_bytes, job.num_gradients, size_mb)


def _pieces(whole_mb: float) -> list[float]:
    """Sizes for models that fit into one bucket: a half, a quarter and an eighth of them."""
    if whole_mb >= BUCKETS_MB[0]:
        return []
    pieces = [float(f"{whole_mb / part:.2g}") for part in (2, 4, 8)]
    return [piece for piece in pieces if piece >= SMALLEST_PIECE_MB]


def bucket_view(job: TunedJob) -> Iterator[Proposal]:
    """Gradients as views into the buckets, which saves copies in both directions."""
    facts = _facts(job)
    if facts is None or facts.gradient_as_bucket_view or not job.matters:
        return
    if job.sent_bytes >= LEAST_COPIED_BYTES:
        yield _switch(
            BUCKET_VIEW,
            True,
            f"{units.byte_size(job.sent_bytes)} of gradients are copied into buckets and back in "
            "each step. The script must not detach gradients in place.",
        )


def unused_parameters(job: TunedJob) -> Iterator[Proposal]:
    """No search for unused parameters where every step uses all of them."""
    facts = _facts(job)
    if facts is None or not facts.find_unused_parameters:
        return
    name = DDP_ARGUMENTS[FIND_UNUSED]
    if job.uses_all_gradients:
        yield _switch(
            FIND_UNUSED,
            False,
            "Every recorded step has every gradient on all ranks, and DDP searches the graph for "
            "unused parameters. Without it a later step that omits one ends with an error.",
        )
    else:
        yield Untried(name, _not_all_used(job))


def static_graph(job: TunedJob) -> Iterator[Proposal]:
    """A graph that DDP may take for the same in each step."""
    facts = _facts(job)
    if facts is None or facts.static_graph or not (job.matters or facts.find_unused_parameters):
        return
    if job.uses_all_gradients:
        yield _switch(
            STATIC_GRAPH,
            True,
            "Every recorded step has every gradient on all ranks. Use it only where all steps of "
            "the training have the same graph.",
        )
    elif facts.find_unused_parameters:
        # The reason stands beside find_unused_parameters.
        return
    else:
        yield Untried(DDP_ARGUMENTS[STATIC_GRAPH], _not_all_used(job))


def _not_all_used(job: TunedJob) -> str:
    if job.uses_all_gradients is None:
        return "Which gradients a step has is not recorded."
    return "Some recorded step lacks a gradient on some rank."


def _facts(job: TunedJob) -> DdpFacts | None:
    return job.evidence.run.ddp if job.is_ddp and not job.is_bench else None


def _switch(variable: str, value: bool, why: str) -> Candidate:
    return Candidate(
        name=f"{DDP_ARGUMENTS[variable]}={value}",
        environment={variable: str(int(value))},
        why=why,
    )
