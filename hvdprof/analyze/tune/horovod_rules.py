"""Rules on Horovod's own settings: cycle, fusion, cache, hierarchical allreduce.

Defaults are those of Horovod 0.28: a cycle of 1 ms, a fusion buffer of 128 MiB, a cache of 1024
responses. Tested in ``tests/analyze/tune/test_candidates.py``.
"""

import math
from collections.abc import Iterator

from hvdprof import units
from hvdprof.analyze.findings.horovod_cycle import CYCLE_TIME, DEFAULT_CYCLE_MS, longer_cycles
from hvdprof.analyze.tune.proposal import Knob, Proposal, Untried, settings_of
from hvdprof.analyze.tune.tuned_job import TunedJob
from hvdprof.model.results.tuning import Candidate

CYCLE = Knob(CYCLE_TIME, "cycle_time_ms")
FUSION = Knob("HOROVOD_FUSION_THRESHOLD", "fusion_threshold_mb", 2.0**20)
CACHE = Knob("HOROVOD_CACHE_CAPACITY", "cache_capacity")
HIERARCHICAL = "HOROVOD_HIERARCHICAL_ALLREDUCE"

DEFAULT_FUSION_BYTES = 2**27
DEFAULT_CACHE = 1024

SHORT_CYCLES_MS = (0.1, 0.5)
SMALLEST_PIECE_BYTES = 2**20
"""Smaller executions cost more latency than they can cover."""


def cycle_time(job: TunedJob) -> Iterator[Proposal]:
    """The time between two looks for ready gradients."""
    if not job.is_horovod:
        return
    present = job.number(CYCLE.variable, DEFAULT_CYCLE_MS)
    if job.variable(CYCLE.variable) is not None and present != DEFAULT_CYCLE_MS:
        yield from settings_of(
            job,
            CYCLE,
            [DEFAULT_CYCLE_MS],
            why=f"The cycle is set to {present:g} ms; Horovod's default is 1 ms.",
            finding=job.finding("cycle-too-long", "cycle-bound"),
        )
    if not job.matters:
        return
    step_ms = job.step_ns / 1e6
    short = [value for value in SHORT_CYCLES_MS if value < present]
    if job.finding("cycle-bound") or job.executions_per_step <= 2:
        yield from settings_of(
            job,
            CYCLE,
            short,
            why=f"A gradient waits up to a cycle, and a step takes {step_ms:.3g} ms.",
            finding=job.finding("cycle-bound"),
        )
    if job.finding("many-small-messages") or job.executions_per_step > 2:
        yield from settings_of(
            job,
            CYCLE,
            longer_cycles(present, step_ms),
            why="A longer cycle fuses more gradients into one collective: now "
            f"{job.executions_per_step:.0f} per step.",
            finding=job.finding("many-small-messages"),
        )


def fusion_threshold(job: TunedJob) -> Iterator[Proposal]:
    """The size of the fusion buffer; what holds all gradients already is no change."""
    if not job.is_horovod or job.num_gradients == 1:
        return
    present = job.number(FUSION.variable, DEFAULT_FUSION_BYTES)
    is_own = job.variable(FUSION.variable) is not None and present != DEFAULT_FUSION_BYTES
    if is_own and (present < job.sent_bytes or not job.sent_bytes):
        yield from settings_of(
            job,
            FUSION,
            [DEFAULT_FUSION_BYTES],
            why=f"The fusion buffer is set to {_buffer(present)}; Horovod's default is 134 MB.",
            finding=job.finding("fusion-too-small"),
        )
    elif is_own:
        yield Untried(
            FUSION.variable,
            f"The default in place of {_buffer(present)} changes nothing: the gradients of a step "
            f"are {units.byte_size(job.sent_bytes)}.",
        )
    if not job.matters:
        return
    if DEFAULT_FUSION_BYTES <= present < job.sent_bytes:
        yield from settings_of(
            job,
            FUSION,
            [_power_of_two_above(job.sent_bytes)],
            why=f"One step sends {units.byte_size(job.sent_bytes)}, more than the buffer holds.",
        )
    largest = job.largest_bytes
    pieces = [2.0 ** math.floor(math.log2(largest / part)) for part in (2, 4, 8) if largest]
    pieces = [piece for piece in pieces if SMALLEST_PIECE_BYTES <= piece < present]
    yield from settings_of(
        job,
        FUSION,
        pieces,
        why=f"Smaller collectives start earlier under backward: the largest is now "
        f"{units.byte_size(largest)}.",
        finding=job.finding("fusion-too-large"),
    )


def cache_capacity(job: TunedJob) -> Iterator[Proposal]:
    """The response cache, without which every tensor is negotiated anew in every step."""
    if not job.is_horovod:
        return
    present = job.number(CACHE.variable, DEFAULT_CACHE)
    evicts = job.finding("cache-evictions")
    too_small = job.num_gradients > present
    if not (too_small or evicts):
        return
    wanted = max(DEFAULT_CACHE, _power_of_two_above(2 * job.num_gradients))
    if evicts and not too_small:
        wanted = max(wanted, 4 * DEFAULT_CACHE)
    yield from settings_of(
        job,
        CACHE,
        [wanted] if wanted > present else [],
        why=f"The response cache holds {present:.0f} responses, and a step has "
        f"{units.counted(job.num_gradients, 'gradient')}.",
        finding=job.finding("cache-off", "cache-evictions"),
    )


def hierarchical_allreduce(job: TunedJob) -> Iterator[Proposal]:
    """Reduction inside every host first; NCCL builds alone have it, and it needs several hosts."""
    if not job.is_horovod:
        return
    is_on = job.number(HIERARCHICAL, 0) > 0
    on_hosts = job.setting.num_hosts > 1 and job.ranks_per_host > 1
    if not job.setting.on_gpus or not on_hosts:
        if is_on:
            where = "on one rank per host" if job.setting.num_hosts > 1 else "on one host"
            yield Untried(
                HIERARCHICAL,
                f"Horovod switches it off {where if job.setting.on_gpus else 'without GPUs'}.",
            )
        return
    if is_on or job.matters:
        value = "0" if is_on else "1"
        yield Candidate(
            name=f"{HIERARCHICAL}={value}",
            environment={HIERARCHICAL: value},
            why=f"{job.setting.num_hosts} hosts with {job.ranks_per_host} ranks each can reduce "
            "inside each host first.",
        )


def _buffer(size: float) -> str:
    return units.byte_size(size) if size else "0, which switches fusion off"


def _power_of_two_above(number: float) -> int:
    return 1 << max(0, math.ceil(math.log2(max(1.0, number))))
