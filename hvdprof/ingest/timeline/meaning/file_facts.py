"""What a timeline file says of the job: facts, and clauses on what a reader should know of it.

Tested in ``tests/ingest/timeline/test_horovod_timeline.py``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hvdprof.ingest.timeline.meaning.activities import backends_of, frameworks_of, is_known_activity
from hvdprof.ingest.timeline.meaning.fact_counts import FactCounts
from hvdprof.ingest.timeline.meaning.ticks import Cycle
from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline, epochs_in_range, is_in_ns
from hvdprof.model.notes import Note, NoteCode
from hvdprof.units import byte_size, count, milliseconds

SINCE_INIT = "since hvd.init()"
SINCE_BOOT = "since boot"
SINCE_RECORDING = "since the recording began"

# Horovod negotiates its first tensor soon after it has opened the file.
_LONGEST_START_US = 600_000_000
_FEW_INITS = 2
_ENOUGH_ROUNDS = 3
_NAMED = 3
_MOST_RECORDINGS = 3


@dataclass(frozen=True, slots=True)
class RankEvidence:
    """Whether the file names ranks where the response cache would hide them.

    Counted over uses after the first of tensors that the response cache keeps (CACHED).
    """

    num_later_uses: int
    num_ticked: int

    @property
    def kind(self) -> str:
        """``none`` (no tensor is used twice), ``first use``, ``some uses`` or ``every use``."""
        if not self.num_later_uses:
            return "none"
        if not self.num_ticked:
            return "first use"
        return "every use" if self.num_ticked == self.num_later_uses else "some uses"

    @property
    def sentence(self) -> str:
        """What this means for naming a straggler, one sentence."""
        return {
            "none": "This timeline uses no cached tensor twice.",
            "first use": "This timeline holds no rank ticks after the first use of each tensor, "
            "so it cannot name a straggler.",
            "some uses": "This timeline holds rank ticks for some later uses of tensors only.",
            "every use": "This timeline holds rank ticks for every use of its tensors.",
        }[self.kind]


@dataclass(frozen=True, slots=True)
class TimelineFacts:
    """What the file says of itself; nothing here is asked of another file.

    Attributes:
        writer: Versions of Horovod that write such a file.
        time_zero: What time 0 of the file is: one of the ``SINCE_...``.
        backends: Libraries that moved data (MPI, GLOO, NCCL, CCL, DDL, MLSL).
        frameworks: Frameworks whose names of tensors are found.
        uses_by_collective: Number of uses of each collective.
        num_events: Slices with a begin, ticks and marks.
        span_us: From the start of the first of these to the latest end.
        num_tensors: Tensors with a use.
        num_executions: Executions of one or several tensors.
        num_fused_executions: Those of several tensors.
        num_phantoms: Negotiations without an operation.
        num_errors: Operations that Horovod refused.
        num_recordings: Different headers.
        num_time_jumps: Places at which the times fall back.
        size: Number of ranks as far as ticks show; ``None`` without any tick.
        size_reason: How that is known, or why not.
        cycle: Length of a cycle of Horovod's loop.
        rank_evidence: Whether ranks are named after the first use of a tensor.
        autotuned: Fusion buffers were made again and again, as autotuning does.
        cache_misses: The response cache missed in at least half of the rounds, though not always.
        torus: Stages are those of the torus allreduce, whose stamps do not say what they cost.
        unknown_activities: Activities that no known version of Horovod writes, with their number.
        fewer_ranks: Tensors that were negotiated by fewer ranks than ``size``.
    """

    writer: str
    time_zero: str
    backends: tuple[str, ...]
    frameworks: tuple[str, ...]
    uses_by_collective: Mapping[str, int]
    num_events: int
    span_us: int
    num_tensors: int
    num_executions: int
    num_fused_executions: int
    num_phantoms: int
    num_errors: int
    num_recordings: int
    num_time_jumps: int
    size: int | None
    size_reason: str
    cycle: Cycle
    rank_evidence: RankEvidence
    autotuned: bool
    cache_misses: bool
    torus: bool
    unknown_activities: Mapping[str, int]
    fewer_ranks: int


def facts_of(counts: FactCounts, raw: RawTimeline, cycle: Cycle) -> TimelineFacts:
    """The facts of a file."""
    time_zero = time_zero_of(raw.epochs, counts.earliest_us or 0)
    size, reason = _size(counts)
    autotuned = counts.num_again > _FEW_INITS
    return TimelineFacts(
        writer=_writer(counts, time_zero),
        time_zero=time_zero,
        backends=backends_of(counts.activities),
        frameworks=frameworks_of(raw.tensors),
        uses_by_collective=dict(counts.uses),
        num_events=counts.num_events,
        span_us=counts.last_us - (counts.first_us or 0),
        num_tensors=len(counts.used),
        num_executions=counts.num_executions,
        num_fused_executions=counts.num_fused,
        num_phantoms=counts.num_phantoms,
        num_errors=counts.operations["ERROR"],
        num_recordings=len({epoch for _, epoch in epochs_in_range(raw.epochs)}),
        num_time_jumps=counts.num_jumps,
        size=size,
        size_reason=reason,
        cycle=cycle,
        rank_evidence=RankEvidence(counts.num_later, counts.num_later_ticked),
        autotuned=autotuned,
        cache_misses=_misses_often(counts) and not autotuned,
        torus=counts.torus,
        unknown_activities={
            name: counts.activities[name]
            for name in raw.names
            if counts.activities[name] and not is_known_activity(name)
        },
        fewer_ranks=_tensors_of_fewer_ranks(counts, size),
    )


def time_zero_of(epochs: tuple[tuple[int, int], ...], earliest_us: int) -> str:
    """What time 0 of a file is, one of the ``SINCE_...``."""
    if epochs_in_range(epochs):
        return SINCE_INIT
    return SINCE_BOOT if earliest_us >= _LONGEST_START_US else SINCE_RECORDING


def _writer(counts: FactCounts, time_zero: str) -> str:
    if time_zero == SINCE_INIT:
        return "Horovod 0.20.1 or later"
    if time_zero == SINCE_BOOT:
        return "Horovod 0.16 to 0.20.0"
    if counts.num_marks:
        return "Horovod 0.16 to 0.20.0, on a machine booted minutes before"
    return "Horovod before 0.16, or 0.16 to 0.20.0 on a machine booted minutes before"


def _size(counts: FactCounts) -> tuple[int | None, str]:
    if not counts.ranks:
        return None, "no rank named"
    highest = max(counts.ranks)
    reason = f"highest rank named: {highest}"
    if len(counts.ranks) <= highest:
        noun = "rank" if len(counts.ranks) == 1 else "ranks"
        reason += f", only {len(counts.ranks)} {noun} named"
    return highest + 1, reason


def _misses_often(counts: FactCounts) -> bool:
    """Whether some tensors, but not all, were negotiated in full in at least half of the rounds.

    A round is one occurrence number. A stall or a join does the same to a few rounds only.
    """
    several = len(counts.rounds) >= _ENOUGH_ROUNDS
    not_all = counts.num_later_ticked < counts.num_later
    return several and not_all and 2 * len(counts.rounds_ticked) >= len(counts.rounds)


def _tensors_of_fewer_ranks(counts: FactCounts, size: int | None) -> int:
    if size is None:
        return 0
    return sum(fewest < size for fewest in counts.fewest_ticks.values())


def notes_of(raw: RawTimeline, counts: FactCounts, facts: TimelineFacts) -> list[Note]:
    """The clauses, most serious first; none for a whole recording without anything odd."""
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
