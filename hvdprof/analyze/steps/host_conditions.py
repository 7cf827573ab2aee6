"""Host conditions of a run: load, other processes, the hypervisor, unequal threads."""

from collections.abc import Iterator

from hvdprof import units
from hvdprof.model.run import Run
from hvdprof.rundir.manifest import PassRecord

BUSY_CORES = 0.2
OWN_LOAD = 0.5
"""Load average caused by the command itself before its first launch."""

STEAL_SHARE = 0.02


def host_condition_warnings(run: Run) -> Iterator[str]:
    """Warnings on load, other processes, the hypervisor, and unequal threads."""
    yield from _load_before(run)
    yield from _other_processes(run.manifest.passes)
    yield from _steal(run.manifest.passes)
    yield from _threads(run)


def _load_before(run: Run) -> Iterator[str]:
    # The load before later passes is that of the earlier passes.
    known = [one for one in run.manifest.passes if one.load_average_before is not None]
    here = run.manifest.hosts[0] if run.manifest.hosts else {}
    cores = here.get("num_cores")
    # In a container the load is that of the whole machine, beyond the cores of the container.
    if not known or not cores or here.get("num_machine_cores", cores) != cores:
        return
    load = known[0].load_average_before or 0.0
    needed = min(_threads_on(run, str(here["hostname"])), cores)
    if needed and load > cores - needed + OWN_LOAD:
        yield (
            f"The load average was {load:.1f} before the first pass, and {needed} of "
            f"{cores} cores were needed: other processes compete with the ranks."
        )


def _threads_on(run: Run, hostname: str) -> int:
    """Largest number of threads of the ranks of one pass on a host."""
    ranks = run.ranks[run.ranks["hostname"].astype(str) == hostname]
    threads = ranks["num_threads"].clip(lower=1).groupby(ranks["pass_id"], observed=True).sum()
    return int(threads.max()) if len(threads) else 0


def _other_processes(passes: list[PassRecord]) -> Iterator[str]:
    busy = [one for one in passes if (one.other_cpu_cores or 0) > BUSY_CORES]
    if busy:
        worst = max(busy, key=lambda one: one.other_cpu_cores or 0)
        yield (
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
