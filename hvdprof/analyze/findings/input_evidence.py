"""Where input is lost: in too few workers, in their work, or behind it; from what was sampled.

Tested in ``tests/analyze/findings/test_input_evidence.py``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hvdprof import units
from hvdprof.analyze.findings.advice import FREE_CORES, Advice, advice, sentences
from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.analyze.findings.input_facts import InputFacts, input_facts, ranks_without_batches
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.recording import sample_format as names
from hvdprof.rundir.recording.line_format import COLLATE, FETCH, PIN, RECEIVE

BUSY_WORKERS, IDLE_WORKERS = 0.8, 0.5
"""From this share of their time on workers are what the ranks wait for; below that they are not."""

HALF = 0.5
"""What has more of a time, or of samples, is what to change."""

BURST = 3.0
"""Mean waits that the longest one of a second takes, where batches come in bursts."""

WITHOUT_CORE = 0.2
"""From this share of its time on, a rank that can run misses a core."""

MOST_WORKERS, MOST_PREFETCH = 16, 32
LEAST_MEASURED = 0.2
"""Of the time, waits for storage on the host that are said."""

_FIRST_WORKERS = advice(
    "load batches in workers: DataLoader(num_workers={number})",
    "Add persistent_workers=True where epochs are short.",
)
_MORE_WORKERS = advice("set num_workers={number}", "{why}")
_CHEAPER = advice(
    "make the loading of a sample cheaper: no core is idle for more workers",
    "Decode and resize beforehand, store samples smaller, use a faster decoder. More workers help "
    "only where loading waits: for storage, or for a network.",
)
_CHEAPER_COLLATE = advice(
    "make collating cheaper: no core is idle for more workers",
    "Return few tensors, of one shape, from the dataset: each is stacked by itself.",
)
_BEHIND_WORKERS = advice(
    "look at what lies between the workers and the loop: large batches through shared memory, "
    "pin_memory, .to(device) without non_blocking=True",
    "More workers do not help: they are idle. At the begin of each epoch persistent_workers=True "
    "does.",
)
_KEEP_WORKERS = advice(
    "set persistent_workers=True: most of the wait is for the first batch of an epoch",
    "Where it is set, let epochs be longer: every one begins with empty queues.",
)
_LONGER_QUEUE = advice(
    "set prefetch_factor={number}",
    "Some batches take far longer than others, and more of them ready bridge that. Each takes "
    "memory.",
)
_HANDING_OVER = advice(
    "make batches cheaper to pin and to receive: few large tensors, in place of many small ones",
    "The rank takes them over from the workers, and pins them with pin_memory=True. More workers "
    "do not help.",
)


@dataclass(frozen=True, slots=True)
class InputEvidence:
    """What was seen of the input: a sentence, and what follows from it; empty where nothing.

    ``is_ready`` is true where what the ranks lacked was a core, and no batch, ``has_batches`` where
    it was no batch at least, ``has_none`` where no worker loads for them. ``is_waiting``: workers
    wait for storage, a network or a lock, and more of them make a lock worse.
    """

    sentence: str
    advice: Advice
    is_ready: bool = False
    has_batches: bool = False
    has_none: bool = False
    is_waiting: bool = False


def input_evidence(evidence: Evidence, cell: Cell, ranks: Sequence[int] = ()) -> InputEvidence:
    """Stages of the input, queue, how busy workers are, how many cores are idle; what to change.

    Args:
        evidence: The run.
        cell: A row of SCALING.
        ranks: The ranks that wait for it; by default those without batches, else all.
    """
    ranks = ranks or ranks_without_batches(evidence, cell)
    facts = input_facts(evidence, cell, ranks)
    if math.isnan(facts.number):
        return InputEvidence("", Advice())
    without_core = facts.measure(names.CORE_WAIT)
    share = units.percent(without_core, 0)
    if facts.number == 0:
        who = ranks_named(ranks) or "the ranks"
        text = f"No worker process loads batches for {who}."
        stages = _stages("Of its data phase,", facts.main_stages)
        could = "it" if len(ranks) == 1 else "they"
        lacking = (
            f"{who.capitalize()} had no core for {share} of the time in which {could} could run."
        )
        lacking = lacking if without_core >= HALF else ""
        text = sentences(text, stages, _waiting(facts), _cores(facts), lacking)
        return InputEvidence(text, _more_workers(facts), has_none=True)
    if math.isnan(facts.busy):
        few = units.counted(facts.samples, "sample")
        unknown = f"What the workers do is unknown: {few} of them." if facts.samples else ""
        return InputEvidence(sentences(unknown, _queue(facts)), _behind_workers(facts))
    number, rate = round(facts.number), facts.measure(names.BATCHES)
    workers, are = ("The worker", "is") if number == 1 else (f"The {number} workers", "are")
    batch = units.milliseconds(1e9 * number * facts.busy / rate) if rate > 0 else ""
    text = sentences(
        f"{workers} of {ranks_named(ranks) or 'a rank'} {are} busy for "
        f"{units.percent(facts.busy, 0)} of the time{f', {batch} per batch' if batch else ''}.",
        _stages("Of that,", facts.worker_stages),
        _waiting(facts) if facts.busy >= BUSY_WORKERS else "",
        _queue(facts),
        _cores(facts),
    )
    if facts.is_ready and without_core >= WITHOUT_CORE:
        lacking = f"To take one over they had no core for {share} of the time."
        return InputEvidence(f"{text} {lacking}", FREE_CORES, is_ready=True)
    # Also where they could not make a batch per step if they were busy all the time.
    is_slow = facts.busy >= BUSY_WORKERS or facts.wanted > facts.number
    if is_slow and not facts.starts_late:
        return InputEvidence(text, _more_workers(facts), is_waiting=facts.awake < HALF)
    return InputEvidence(text, _behind_workers(facts), has_batches=facts.is_ready)


def _more_workers(facts: InputFacts) -> Advice:
    """So many workers that they make a batch per step, as far as cores are idle for them."""
    number, fits = round(facts.number), _fitting(facts)
    if math.isnan(fits):
        return Advice() if number else _FIRST_WORKERS.formatted(number="...")
    most = min(number + int(fits), max(number, MOST_WORKERS))
    # One alone may be needed for what varies. A measurement is no more exact than a tenth.
    needed = most if math.isnan(facts.wanted) else max(math.ceil(facts.wanted - 0.1), number + 1)
    if most <= number:
        stages = facts.worker_stages if number else facts.main_stages
        return _CHEAPER_COLLATE if stages.get(COLLATE, 0.0) >= HALF else _CHEAPER
    if not number:
        return _FIRST_WORKERS.formatted(number=min(needed, most))
    why = "Each needs a core: that many are idle."
    if facts.awake < HALF:
        why = (
            "Those that there are mostly wait, so more of them need no core each. That helps "
            "where they wait for storage or a network, and not where it is for a lock."
        )
    elif needed > most:
        why = f"{needed} would be needed, and no more cores are idle."
    return _MORE_WORKERS.formatted(number=min(needed, most), why=why)


def _behind_workers(facts: InputFacts) -> Advice:
    """What to do where workers have time left."""
    if facts.starts_late:
        return _KEEP_WORKERS
    in_main = sum(facts.main_stages.get(name, 0.0) for name in (RECEIVE, PIN, COLLATE))
    is_unpinned = facts.measure(names.UNPINNED) >= 1 and facts.measure(names.EMPTY) >= HALF
    if in_main >= HALF or is_unpinned:
        return _HANDING_OVER
    if (longer := _longer_queue(facts)).text:
        return longer
    return _BEHIND_WORKERS if facts.busy < IDLE_WORKERS else Advice()


def _longer_queue(facts: InputFacts) -> Advice:
    """As many batches ahead as bridge the longest wait; empty where waits are alike."""
    rate, rest = facts.measure(names.BATCHES), facts.rest
    longest_s, factor = facts.measure(names.LONGEST_WAIT), facts.measure(names.PREFETCH)
    if not (rate > 0 and factor > 0 and rest > 0):
        return Advice()
    if facts.is_ready or not longest_s >= BURST * facts.measure(names.DATA_WAIT) / rate:
        return Advice()
    more = longest_s * rate / rest
    wanted = min(math.ceil(factor + more / facts.number), MOST_PREFETCH)
    return _LONGER_QUEUE.formatted(number=wanted) if wanted > factor else Advice()


def _fitting(facts: InputFacts) -> float:
    """More workers per rank for which there are cores; 0 of none, NaN where that is unknown."""
    if facts.awake < HALF:
        return float(MOST_WORKERS)
    if math.isnan(facts.idle_cores):
        return math.nan
    return float(int(min(facts.idle_cores / facts.num_ranks, MOST_WORKERS)))


_TITLES = {
    FETCH: "fetching samples",
    COLLATE: "collating",
    PIN: "pinning memory",
    RECEIVE: "taking batches over",
}


def _stages(begin: str, stages: Mapping[str, float]) -> str:
    """Stages with their shares, the largest first; empty without samples of any."""
    known = [(share, name) for name, share in stages.items() if name in _TITLES and share >= 0.01]
    parts = [
        f"{_TITLES[name]}{'' if place else ' takes'} {units.percent(share, 0)}"
        for place, (share, name) in enumerate(sorted(known, reverse=True))
    ]
    return f"{begin} {', '.join(parts)}." if parts else ""


def _queue(facts: InputFacts) -> str:
    """How often the queue of batches was empty, or that epochs begin late; empty where unknown."""
    if facts.starts_late:
        first = facts.measure(names.FIRST_WAIT) / facts.measure(names.DATA_WAIT)
        return f"Of the wait for batches, {units.percent(first, 0)} is for the first of an epoch."
    empty, most = facts.measure(names.EMPTY), facts.number * facts.measure(names.PREFETCH)
    if math.isnan(empty * most):
        return ""
    return (
        f"The next batch was not ready at {units.percent(empty, 0)} of the fetches. In the mean, "
        f"{facts.measure(names.READY):.1f} of at most {most:.0f} were."
    )


def _waiting(facts: InputFacts) -> str:
    """That loading waits for something else than a core; empty where it does not."""
    if not facts.awake < HALF:
        return ""
    pressure, least = facts.measure("psi_io"), "" if facts.number else "at most "
    return sentences(
        f"Loading uses a core, or waits for one, for {least}{units.percent(facts.awake, 0)} of its "
        "time: the rest is waits for storage, a network or a lock.",
        f"On the host, tasks wait for storage {units.percent(pressure, 0)} of the time."
        if pressure >= LEAST_MEASURED
        else "",
    )


def _cores(facts: InputFacts) -> str:
    if math.isnan(facts.idle_cores):
        return ""
    if facts.idle_cores < 0.05:
        return f"None of {units.counted(facts.cores, 'core')} is idle."
    return f"{facts.idle_cores:.1f} of {facts.cores} cores are idle."
