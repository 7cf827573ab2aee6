"""What a reader of the tables should know of the file: clauses with counts and places.

Tested in ``tests/ingest/timeline/test_horovod_timeline.py``.
"""

from collections.abc import Iterator

from hvdprof.ingest.timeline.meaning.fact_counts import FactCounts
from hvdprof.ingest.timeline.meaning.file_facts import TimelineFacts
from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline, epochs_in_range, is_in_ns
from hvdprof.model.notes import Note, NoteCode
from hvdprof.units import byte_size, count, milliseconds

_NAMED = 3
_MOST_RECORDINGS = 3


def notes_of(raw: RawTimeline, counts: FactCounts, facts: TimelineFacts) -> list[Note]:
    """The clauses, most serious first; none for a whole recording without anything odd.

    Args:
        raw: The file; its slices, ticks and marks are not looked at.
        counts: What was counted in it.
        facts: What it says of the job.
    """
    return [*_of_the_file(raw), *_of_the_records(raw, counts), *_of_the_job(facts)]


def _of_the_file(raw: RawTimeline) -> Iterator[Note]:
    if raw.foreign:
        yield Note(NoteCode.UNREADABLE, f"it is {raw.foreign}, not a timeline of Horovod")
    if raw.damage.num_places:
        places = [f"{place.what} at byte {place.offset}" for place in raw.damage.places[:_NAMED]]
        rest = raw.damage.num_places - len(places)
        more = f" and {count(rest)} more" if rest else ""
        number = raw.damage.num_places
        text = f"damaged places left out: {count(number)} ({byte_size(raw.damage.num_bytes)}), "
        yield Note(NoteCode.DAMAGED, f"{text}{', '.join(places)}{more}", number=number)
    if not sum(raw.num_records.values()):
        yield Note(NoteCode.UNREADABLE, "it holds no event")
    elif not raw.num_timed:
        yield Note(NoteCode.UNREADABLE, "it holds no event, only names")
    num_other = raw.num_records["other"]
    if num_other and not raw.foreign:
        noun = "record is" if num_other == 1 else "records are"
        text = f"{count(num_other)} {noun} of another trace and left out"
        yield Note(NoteCode.OMITTED, text, number=num_other)


def _of_the_records(raw: RawTimeline, counts: FactCounts) -> Iterator[Note]:
    if any(is_in_ns(epoch) for _, epoch in raw.epochs):
        text = "its header states the epoch in ns instead of µs; it was read as ns"
        yield Note(NoteCode.CLOCK_JUMPS, text)
    if counts.num_jumps:
        largest = milliseconds(counts.largest_jump_us * 1e3)
        text = f"its times fall back by up to {largest} (places: {count(counts.num_jumps)}): "
        text += f"{_why_back(raw, counts)}; durations across them are wrong"
        yield Note(NoteCode.CLOCK_JUMPS, text, number=counts.num_jumps)
    num_moved = counts.num_moved + len(raw.epochs) - len(epochs_in_range(raw.epochs))
    if num_moved:
        moved = _number(num_moved, "record has a time", "records have times")
        text = f"{moved} that no clock shows, moved to the nearest possible one"
        yield Note(NoteCode.CLOCK_JUMPS, text, number=num_moved)
    if counts.num_alone:
        alone = _number(counts.num_alone, "event ends", "events end")
        text = f"{alone} without a beginning (the recording began in the middle)"
        yield Note(NoteCode.NEVER_BEGIN, text, number=counts.num_alone)
    if counts.num_open:
        never = _number(counts.num_open, "event never ends", "events never end")
        text = f"{never} (the recording stopped before, or lost the end)"
        yield Note(NoteCode.NEVER_END, text, number=counts.num_open)
    if counts.num_outside:
        ticks = _number(counts.num_outside, "rank tick lies", "rank ticks lie")
        text = f"{ticks} outside of every negotiation"
        yield Note(NoteCode.OMITTED, text, number=counts.num_outside)


def _of_the_job(facts: TimelineFacts) -> Iterator[Note]:
    if facts.num_recordings > 1:
        text = f"it holds recordings of {facts.num_recordings} processes, one behind the other"
        yield Note(NoteCode.SEVERAL_RECORDINGS, text, number=facts.num_recordings)
    # Records that are out of order show nothing of the job.
    if not facts.num_time_jumps:
        yield from (Note(NoteCode.JOB_FACT, text) for text in _shown_of_the_job(facts))


def _shown_of_the_job(facts: TimelineFacts) -> Iterator[str]:
    if facts.num_errors:
        failed = _number(facts.num_errors, "operation", "operations")
        yield f"{failed} failed: ranks did not agree on the tensor"
    if facts.num_phantoms:
        phantoms = _number(facts.num_phantoms, "negotiation", "negotiations")
        yield (
            f"{phantoms} without an operation (a rank that has joined answers for every cached "
            "tensor), not counted as uses"
        )
    if facts.fewer_ranks:
        fewer = _number(facts.fewer_ranks, "tensor was", "tensors were")
        yield (
            f"{fewer} negotiated by fewer than {facts.size} ranks: those of a process set are "
            "numbered within the set, and ranks that have joined are left out"
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


def _number(number: int, one: str, several: str) -> str:
    return f"{count(number)} {one if number == 1 else several}"


def _why_back(raw: RawTimeline, counts: FactCounts) -> str:
    if counts.num_jumps > _MOST_RECORDINGS or raw.damage.num_places:
        return "two processes wrote the file, or its records were put in another order"
    return "one recording follows another, or the clock was set back"
