"""Host conditions of a run: other processes, the hypervisor, unequal threads."""

from collections.abc import Iterator

from hvdprof import units
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Run
from hvdprof.rundir.manifest import PassRecord

BUSY_CORES = 0.2
STEAL_SHARE = 0.02


def host_condition_warnings(run: Run) -> Iterator[Note]:
    """Warnings on other processes, the hypervisor, and unequal threads.

    Other processes count by the processor time that they use during a pass. The load average
    before the first pass is no evidence: it still holds a build that has just ended.
    """
    yield from _other_processes(run.manifest.passes)
    yield from _steal(run.manifest.passes)
    yield from _threads(run)


def _other_processes(passes: list[PassRecord]) -> Iterator[Note]:
    busy = [record for record in passes if (record.other_cpu_cores or 0) > BUSY_CORES]
    if busy:
        worst = max(busy, key=lambda record: record.other_cpu_cores or 0)
        text = (
            f"Other processes kept cores busy during {len(busy)} of {len(passes)} passes, up to "
            f"{worst.other_cpu_cores:.1f} cores in {worst.id}."
        )
        yield Note(NoteCode.OTHER_LOAD, text, pass_id=worst.id, number=len(busy))


def _steal(passes: list[PassRecord]) -> Iterator[Note]:
    affected = [record for record in passes if (record.steal_share or 0) > STEAL_SHARE]
    if affected:
        worst = max(affected, key=lambda record: record.steal_share or 0)
        text = (
            f"The hypervisor took cores away during {len(affected)} of {len(passes)} passes, at "
            "most "
            f"{units.percent(worst.steal_share or 0)} of the time in {worst.id}."
        )
        yield Note(NoteCode.STEAL, text, pass_id=worst.id, number=len(affected))


def _threads(run: Run) -> Iterator[Note]:
    known = run.ranks.loc[run.ranks["num_threads"] > 0, "num_threads"]
    numbers = sorted(set(known))
    if len(numbers) > 1:
        text = (
            f"Ranks computed with {' or '.join(map(str, numbers))} threads: cells with different "
            "threads per rank cannot be compared."
        )
        yield Note(NoteCode.UNEQUAL_THREADS, text)
