"""Where input is lost: in too few workers, in their work, or behind it; from what was sampled.

Tested in ``tests/analyze/findings/test_input_evidence.py``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hvdprof import units
from hvdprof.analyze.findings.advice import FREE_CORES, Advice, advice, sentences
from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.analyze.findings.input_facts import InputFacts, Shares, input_facts
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.recording import sample_format as names
from hvdprof.rundir.recording.line_format import COLLATE, FETCH, PIN, RECEIVE

BUSY_WORKERS, IDLE_WORKERS = 0.8, 0.5
"""From this share of their time on workers are what the ranks wait for; below that they are not."""

MOST_STAGE = 0.5
"""A stage with more of the samples is the one to change."""

LEAST_AWAKE = 0.5
"""Loading that has a core, or waits for one, for less of its time waits for something else."""

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
    "make collate_fn cheaper: no core is idle for more workers",
    "Return tensors of one shape from the dataset, so that torch.stack is all that is left.",
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
_PINNING = advice(
    "look at pin_memory: batches of the workers wait for the thread that pins them",
    "Collate into few large tensors, and compare with pin_memory=False.",
)
_RECEIVING = advice(
    "make batches cheaper to hand over: few large tensors, in place of many small ones",
    "The main thread takes them over from the workers. More workers do not help.",
)


@dataclass(frozen=True, slots=True)
class InputEvidence:
    """What was seen of the input: a sentence, and what follows from it; empty where nothing.

    ``is_ready`` is true where batches were ready, and what the ranks lacked was a core.
    """

    sentence: str
    advice: Advice
    is_ready: bool = False


def input_evidence(evidence: Evidence, cell: Cell, ranks: Sequence[int] = ()) -> InputEvidence:
    """Stages of the input, queue, how busy workers are, how many cores are idle; what to change.

    Args:
        evidence: The run.
        cell: A row of SCALING.
        ranks: The ranks that wait for it; all by default.
    """
    facts = input_facts(evidence, cell, ranks)
    if math.isnan(facts.number):
        return InputEvidence("", Advice())
    if facts.number == 0:
        text = f"No worker process loads batches for {ranks_named(ranks) or 'the ranks'}."
        stages = _stages("Of its data phase,", facts.main_stages)
        text = sentences(text, stages, _waiting(facts), _cores(facts))
        return InputEvidence(text, _first_workers(facts))
    if math.isnan(facts.busy):
        few = units.counted(facts.samples, "sample")
        unknown = f"What the workers do is unknown: {few} of them." if facts.samples else ""
        return InputEvidence(sentences(unknown, _queue(facts)), _without_samples(facts))
    number = round(facts.number)
    workers = "The worker" if number == 1 else f"The {number} workers"
    verb = "is" if number == 1 else "are"
    batch = facts.batch_ns
    per_batch = "" if math.isnan(batch) else f", {units.milliseconds(batch)} per batch"
    text = sentences(
        f"{workers} of {ranks_named(ranks) or 'a rank'} {verb} busy for "
        f"{units.percent(facts.busy, 0)} of the time{per_batch}.",
        _stages("Of that,", facts.worker_stages),
        _waiting(facts) if facts.busy >= BUSY_WORKERS else "",
        _queue(facts),
        _cores(facts),
    )
    without_core = facts.measure(names.CORE_WAIT)
    if facts.is_ready and without_core >= WITHOUT_CORE:
        share = units.percent(without_core, 0)
        lacking = f"To take one over they had no core for {share} of the time."
        return InputEvidence(f"{text} {lacking}", FREE_CORES, is_ready=True)
    if facts.busy >= BUSY_WORKERS:
        return InputEvidence(text, _more_workers(facts))
    return InputEvidence(text, _behind_workers(facts))


def _first_workers(facts: InputFacts) -> Advice:
    fits = _fitting(facts)
    if fits == 0:
        return _CHEAPER_COLLATE if _is_mostly(facts.main_stages, COLLATE) else _CHEAPER
    wanted = facts.wanted
    known = [one for one in (fits, wanted) if not math.isnan(one)]
    number = max(_whole(min(known)), 1) if known else "..."
    return _FIRST_WORKERS.formatted(number=number)


def _more_workers(facts: InputFacts) -> Advice:
    number, fits, wanted = round(facts.number), _fitting(facts), facts.wanted
    if math.isnan(fits):
        return Advice()
    if fits == 0:
        return _CHEAPER_COLLATE if _is_mostly(facts.worker_stages, COLLATE) else _CHEAPER
    most = min(number + int(fits), max(number, MOST_WORKERS))
    # So many make a batch per step; with one alone for what varies.
    needed = most if math.isnan(wanted) else max(_whole(wanted), number + 1)
    more = min(needed, most)
    if more <= number:
        return _CHEAPER
    why = "Each needs a core: that many are idle."
    if facts.awake < LEAST_AWAKE:
        why = "Those that there are mostly wait, so more of them need no core each."
    elif needed > most:
        why = f"{needed} would be needed, and no more cores are idle."
    return _MORE_WORKERS.formatted(number=more, why=why)


def _behind_workers(facts: InputFacts) -> Advice:
    """What to do where workers have time left."""
    wait, first = facts.measure(names.DATA_WAIT), facts.measure(names.FIRST_WAIT)
    if wait > 0 and first >= MOST_STAGE * wait:
        return _KEEP_WORKERS
    if facts.measure(names.UNPINNED) >= 1 and facts.measure(names.EMPTY) >= MOST_STAGE:
        return _PINNING
    in_main = sum(facts.main_stages.get(name, 0.0) for name in (RECEIVE, PIN, COLLATE))
    if in_main >= MOST_STAGE:
        return _RECEIVING
    if (longer := _longer_queue(facts)).text:
        return longer
    return _BEHIND_WORKERS if facts.busy < IDLE_WORKERS else Advice()


def _without_samples(facts: InputFacts) -> Advice:
    first = facts.measure(names.FIRST_WAIT)
    return _KEEP_WORKERS if first >= MOST_STAGE * facts.measure(names.DATA_WAIT) > 0 else Advice()


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
    if facts.awake < LEAST_AWAKE:
        return float(MOST_WORKERS)
    if math.isnan(facts.idle_cores):
        return math.nan
    return float(int(min(facts.idle_cores / facts.num_ranks, MOST_WORKERS)))


def _whole(number: float) -> int:
    """Upwards, but for what a measurement does not tell from a whole number."""
    return math.ceil(number - 0.1)


def _is_mostly(stages: Shares, stage: str) -> bool:
    return stages.get(stage, 0.0) >= MOST_STAGE


_TITLES = {
    FETCH: "fetching samples takes {}",
    COLLATE: "collating them {}",
    PIN: "pinning memory {}",
    RECEIVE: "taking batches over {}",
}


def _stages(begin: str, stages: Shares) -> str:
    """Stages with their shares, the largest first; empty without samples of any."""
    known = [(share, name) for name, share in stages.items() if name in _TITLES and share >= 0.01]
    if not known:
        return ""
    parts = [_TITLES[name].format(units.percent(share, 0)) for share, name in sorted(known)[::-1]]
    first, *rest = parts
    if rest and not first.startswith("fetching"):
        first = first.replace("collating them", "collating samples takes")
    return f"{begin} {', '.join([first, *rest])}."


def _queue(facts: InputFacts) -> str:
    """How often the queue of batches was empty; empty where that is unknown."""
    empty, ready = facts.measure(names.EMPTY), facts.measure(names.READY)
    most = facts.number * facts.measure(names.PREFETCH)
    if math.isnan(empty):
        return ""
    of_most = "" if math.isnan(most) else f" of at most {most:.0f}"
    return (
        f"No batch was ready at {units.percent(empty, 0)} of the fetches, in the mean "
        f"{ready:.1f}{of_most}."
    )


def _waiting(facts: InputFacts) -> str:
    """That loading waits for something else than a core; empty where it does not."""
    if not facts.awake < LEAST_AWAKE:
        return ""
    pressure, read = facts.measure("psi_io"), facts.measure("disk_read")
    share = units.percent(facts.awake, 0)
    least = "at most " if not facts.number else ""
    text = (
        f"Loading uses a core, or waits for one, for {least}{share} of its time: the rest is waits "
        "for storage, a network or a lock."
    )
    if pressure >= LEAST_MEASURED:
        speed = "" if math.isnan(read) else f", {units.byte_size(read)}/s are read from its disks"
        text += f" On the host, tasks wait for storage {units.percent(pressure, 0)} of the time"
        text += f"{speed}."
    return text


def _cores(facts: InputFacts) -> str:
    if math.isnan(facts.idle_cores):
        return ""
    return f"{facts.idle_cores:.1f} of {facts.cores} cores are idle."
