"""Host conditions of a run: other processes, the hypervisor, unequal threads."""

from collections.abc import Iterator

from hvdprof import units
from hvdprof.model.run import Run
from hvdprof.rundir.manifest import PassRecord

BUSY_CORES = 0.2
STEAL_SHARE = 0.02


def host_condition_warnings(run: Run) -> Iterator[str]:
    """Warnings on other processes, the hypervisor, and unequal threads.

    Other processes count by the processor time that they use during a pass. The load average
    before the first pass is no evidence: it still holds a build that has just ended.
    """
    yield from filter(None, [load_warning(run.manifest.passes)])
    yield from _steal(run.manifest.passes)
    yield from _threads(run)


def load_warning(passes: list[PassRecord]) -> str:
    """The warning on other processes; empty where they left the cores alone."""
    busy = [one for one in passes if (one.other_cpu_cores or 0) > BUSY_CORES]
    if not busy:
        return ""
    worst = max(busy, key=lambda one: one.other_cpu_cores or 0)
    return (
        f"Other processes kept cores busy during {len(busy)} of {len(passes)} passes, up to "
        f"{worst.other_cpu_cores:.1f} cores in {worst.id}."
    )


def _steal(passes: list[PassRecord]) -> Iterator[str]:
    affected = [one for one in passes if (one.steal_share or 0) > STEAL_SHARE]
    if affected:
        worst = max(affected, key=lambda one: one.steal_share or 0)
        yield (
            f"The hypervisor took cores away during {len(affected)} of {len(passes)} passes, at "
            "most "
            f"{units.percent(worst.steal_share or 0)} of the time in {worst.id}."
        )


def _threads(run: Run) -> Iterator[str]:
    known = run.ranks.loc[run.ranks["num_threads"] > 0, "num_threads"]
    numbers = sorted(set(known))
    if len(numbers) > 1:
        yield (
            f"Ranks computed with {' or '.join(map(str, numbers))} threads: cells with different "
            "threads per rank cannot be compared."
        )
