"""What a reader of the tables should know of the file: clauses with counts and places."""

from collections.abc import Iterator

import numpy as np

from hvdprof.ingest.timeline.facts import TimelineFacts
from hvdprof.ingest.timeline.raw import OPEN, ORPHAN, RawTimeline
from hvdprof.ingest.timeline.semantics import Semantics
from hvdprof.ingest.timeline.uses import NONE
from hvdprof.units import byte_size, count

_NAMED = 3
# Horovod ends these without ever having begun them (operations.cc, PerformOperation).
_ENDS_ALONE = ("barrier.", "join.")


def notes_of(known: Semantics, facts: TimelineFacts) -> list[str]:
    """The clauses, most serious first; none for a whole recording without anything odd."""
    return [*_of_the_file(known.raw), *_of_the_records(known), *_of_the_job(facts)]


def _of_the_file(raw: RawTimeline) -> Iterator[str]:
    if raw.foreign:
        yield f"it is {raw.foreign}, not a timeline of Horovod"
    if raw.damage.num_places:
        places = [f"{place.what} at byte {place.offset}" for place in raw.damage.places[:_NAMED]]
        rest = raw.damage.num_places - len(places)
        more = f" and {count(rest)} more" if rest else ""
        yield (
            f"damaged places left out: {count(raw.damage.num_places)} "
            f"({byte_size(raw.damage.num_bytes)}), {', '.join(places)}{more}"
        )
    if not sum(raw.num_records.values()):
        yield "it holds no event"
    elif not raw.num_timed:
        yield "it holds no event, only names"
    sessions = len({epoch for _, epoch in raw.epochs})
    if sessions > 1:
        yield f"it holds recordings of {sessions} processes, one behind the other"


def _of_the_records(known: Semantics) -> Iterator[str]:
    raw = known.raw
    slices = raw.slices
    if known.num_moved:
        yield (
            f"{known.num_moved} records have times that no clock shows; they were moved to the "
            "nearest possible ones"
        )
    alone = slices.name == ORPHAN
    expected = np.asarray([name.startswith(_ENDS_ALONE) for name in raw.tensors], dtype=bool)
    num_alone = int((~expected[slices.pid[alone]]).sum())
    if num_alone:
        yield (
            f"{num_alone} events end without a beginning (recording began in the middle of them)"
        )
    num_open = int((slices.end_order == OPEN).sum())
    if num_open:
        yield (f"{num_open} events never end (the recording stopped before, or lost their end)")
    num_outside = int((known.places.use == NONE).sum())
    if num_outside:
        yield f"{num_outside} rank ticks lie outside of every negotiation"


def _of_the_job(facts: TimelineFacts) -> Iterator[str]:
    if facts.num_errors:
        yield f"{facts.num_errors} operations failed: ranks did not agree on the tensor"
    if facts.num_phantoms:
        yield (
            f"{facts.num_phantoms} negotiations were followed by no operation (a rank that has "
            "joined answers for every cached tensor); they are no uses"
        )
    if facts.fewer_ranks:
        yield (
            f"{facts.fewer_ranks} tensors were negotiated by fewer than {facts.size} ranks: those "
            "of a process set are numbered within the set, and ranks that have joined are left out"
        )
    if facts.autotuned:
        yield "Horovod was tuning its parameters while it was recorded"
    if facts.cache_misses:
        yield (
            "the response cache missed in most rounds: there are more tensors than "
            "HOROVOD_CACHE_CAPACITY, or their shapes change"
        )
    if facts.torus:
        yield (
            "its allreduces are those of the torus algorithm, whose stages are stamped where they "
            "are launched: lengths of single stages are not what they cost"
        )
    if facts.unknown_activities:
        told = ", ".join(f"{name} ({n})" for name, n in facts.unknown_activities.items())
        yield f"activities that no known version of Horovod writes: {told}"
