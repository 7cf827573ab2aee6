"""What a reader of the tables should know of the file: clauses with counts and places.

Tested in ``tests/ingest/timeline/test_horovod_timeline.py``.
"""

from collections.abc import Iterator

from hvdprof.ingest.timeline.meaning.fact_counts import FactCounts
from hvdprof.ingest.timeline.meaning.file_facts import TimelineFacts
from hvdprof.ingest.timeline.syntax.clamp_timestamps import epochs_in_range, is_in_ns
from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline
from hvdprof.units import byte_size, count, milliseconds

_NAMED = 3
_MOST_RECORDINGS = 3


def notes_of(raw: RawTimeline, counts: FactCounts, facts: TimelineFacts) -> list[str]:
    """The clauses, most serious first; none for a whole recording without anything odd.

    Args:
        raw: The file; its slices, ticks and marks are not looked at.
        counts: What was counted in it.
        facts: What it says of the job.
    """
    return [*_of_the_file(raw), *_of_the_records(raw, counts), *_of_the_job(facts)]


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
    sessions = len({epoch for _, epoch in epochs_in_range(raw.epochs)})
    if sessions > 1:
        yield f"it holds recordings of {sessions} processes, one behind the other"


def _of_the_records(raw: RawTimeline, counts: FactCounts) -> Iterator[str]:
    if any(is_in_ns(epoch) for _, epoch in raw.epochs):
        yield "its header states the epoch in ns instead of µs; it was read as ns"
    if counts.num_jumps:
        largest = milliseconds(counts.largest_jump_us * 1e3)
        yield (
            f"its times fall back by up to {largest} (places: {count(counts.num_jumps)}): "
            f"{_why_back(raw, counts)}; durations across them are wrong"
        )
    num_moved = counts.num_moved + len(raw.epochs) - len(epochs_in_range(raw.epochs))
    if num_moved:
        yield (
            f"{num_moved} records have times that no clock shows; they were moved to the "
            "nearest possible ones"
        )
    if counts.num_alone:
        yield (
            f"{counts.num_alone} events end without a beginning (recording began in the middle of "
            "them)"
        )
    if counts.num_open:
        yield (
            f"{counts.num_open} events never end (the recording stopped before, or lost their end)"
        )
    if counts.num_outside:
        yield f"{counts.num_outside} rank ticks lie outside of every negotiation"


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
        named = ", ".join(f"{name} ({n})" for name, n in facts.unknown_activities.items())
        yield f"activities that no known version of Horovod writes: {named}"


def _why_back(raw: RawTimeline, counts: FactCounts) -> str:
    if counts.num_jumps > _MOST_RECORDINGS or raw.damage.num_places:
        return "two processes wrote the file, or its records were put in another order"
    return "one recording follows another, or the clock was set back"
