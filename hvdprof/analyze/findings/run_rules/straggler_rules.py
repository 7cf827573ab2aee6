"""Rules on ranks that are late: alone, many alike, and by turns."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.cell_finding import (
    Cell,
    ceiling_share,
    cell_name,
    cell_place,
    cost_of,
    costly_terms,
)
from hvdprof.analyze.findings.evidence import Evidence, is_base
from hvdprof.analyze.findings.finding import SMALLEST_COST, Finding, severity_of_cost
from hvdprof.analyze.findings.nccl_rules.nccl_rule import hosts_of, is_several, ranks_text
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.analyze.steps.job_steps import LAUNCH
from hvdprof.analyze.stragglers.stragglers import PAUSE, UNATTRIBUTED
from hvdprof.model.causes import NO_JITTER, ON_TIME, TRANSIENT_IMBALANCE

SHARE_OF_LAUNCHES = 0.5
MOST_TOLD_ALONE = 3
"""More ranks that lose time alike are always one finding: of a slow host all ranks are late."""

_PERSISTENT = "persistent"
_SLOW_COMPUTE = (
    "look at {host} clocks, temperature and other processes ({tools}), and at uneven work per "
    "sample"
)
_TOOLS_OF_GPUS = "nvidia-smi -q -d CLOCK,PERFORMANCE; top"
_TOOLS_OF_CPUS = "top; grep MHz /proc/cpuinfo"

_REMEDY_OF_PHASE = {
    "data": "give {rank} input more workers or faster storage (num_workers=, "
    "prefetch_factor=; .prefetch() of tf.data), and check that all ranks read equal shards",
    "forward": _SLOW_COMPUTE,
    "backward": _SLOW_COMPUTE,
    "optimizer": "do the same work on every rank after optimizer.step(): checkpoints and logging "
    "on one rank delay all",
    PAUSE: "look for what {alone} between steps: logging, checkpoints, evaluation, garbage "
    "collection (gc.freeze())",
    UNATTRIBUTED: "no single phase explains it: look at {host} load, clocks and memory",
}
_ONE = {"rank": "that rank's", "host": "that host's", "alone": "this rank alone does"}
_MANY = {"rank": "these ranks'", "host": "their hosts'", "alone": "these ranks do"}


@dataclass(frozen=True, slots=True)
class _Late:
    """A rank that is late in most launches of a cell: ``rows`` of STRAGGLERS of these launches.

    What it costs is a mean over all launches of the cell.
    """

    rank: int
    pattern: str
    phase: str
    rows: pd.DataFrame
    cost: float
    cost_ns: float

    @property
    def phase_share(self) -> float:
        """How much of the lateness the phase explains, in the launches that name it."""
        return float(self.rows.loc[self.rows["phase"] == self.phase, "phase_share"].mean())


def late_rank(evidence: Evidence) -> Iterator[Finding]:
    """A rank that is persistently or now and then late, in most launches of a cell.

    Of ranks that are late alike one finding tells where they are more than three, or cost far more
    together than each alone: without one of them the others would still be waited for.
    """
    for cell, launches in _by_cell(evidence):
        num_launches = len(launches[LAUNCH].drop_duplicates())
        alike: dict[tuple[str, str], list[_Late]] = {}
        for one in _named(launches, num_launches):
            alike.setdefault((one.pattern, one.phase), []).append(one)
        for members in alike.values():
            if _are_told_together(members, num_launches):
                yield _many(evidence, cell, members, num_launches)
            else:
                yield from (_alone(evidence, cell, one, num_launches) for one in members)


def _are_told_together(members: list[_Late], num_launches: int) -> bool:
    if not 1 < len(members) <= MOST_TOLD_ALONE:
        return len(members) > 1
    together, _ = _cost_of_many(members, num_launches)
    return together >= max(one.cost for one in members) + SMALLEST_COST


def _by_cell(evidence: Evidence) -> Iterator[tuple[Cell, pd.DataFrame]]:
    """The rows of STRAGGLERS of the launches that speak for each cell without toggles."""
    table = evidence.table("stragglers").astype(dict.fromkeys(LAUNCH, str))
    joined = table.merge(evidence.measured(), on=LAUNCH)
    for cell in evidence.cells():
        if is_base(cell):
            own = (joined["model"] == cell["model"]) & (joined["size"] == cell["np"])
            yield cell, joined[own & (joined["engine"] == cell["engine"])]


def _named(launches: pd.DataFrame, num_launches: int) -> Iterator[_Late]:
    named = launches[launches["pattern"].isin([_PERSISTENT, "transient"])]
    for rank, rows in named.groupby("rank"):
        # A rank late in one launch out of three may have been placed badly there.
        if len(rows) >= max(1.0, SHARE_OF_LAUNCHES * num_launches):
            costs = launches.loc[launches["rank"] == rank, ["cost_share", "cost_ns"]].sum()
            yield _Late(
                rank=int(str(rank)),
                pattern=str(rows["pattern"].mode().iloc[0]),
                phase=str(rows["phase"].value_counts().index[0]),
                rows=rows,
                # What comes back is a mean over launches; one in which it was on time counts too.
                cost=float(costs["cost_share"]) / num_launches,
                cost_ns=float(costs["cost_ns"]) / num_launches,
            )


def _alone(evidence: Evidence, cell: Cell, one: _Late, num_launches: int) -> Finding:
    rows = one.rows
    hosts = _hosts(evidence, [one])
    where = _where(one.phase).format("its")
    return Finding(
        f"late-rank-{one.pattern}",
        severity_of_cost(one.cost),
        f"rank {one.rank}",
        f"{cell_place(cell)}: rank {one.rank}{hosts} is late {_how(rows)}, which it loses {where}; "
        "the others wait for it.",
        _remedy(evidence, cell, one.phase, _ONE),
        "likely" if len(rows) > 1 and not _crowd(evidence, cell) else "possible",
        evidence=f"last in {units.percent(float(rows['share_last'].mean()), 0)} of the steps, in "
        f"{len(rows)} of {num_launches} launches; {_explained(one.phase, one.phase_share)}"
        f"{_beside(evidence, cell)}",
        **cost_of(cell, one.cost, one.cost_ns, ceiling_share(evidence, cell, ON_TIME, one.rank)),
    )


def _many(evidence: Evidence, cell: Cell, members: list[_Late], num_launches: int) -> Finding:
    first, least = members[0], min(len(one.rows) for one in members)
    ranks = ranks_text([one.rank for one in members])
    share = sum(one.phase_share for one in members) / len(members)
    where = _where(first.phase).format("their")
    cost, cost_ns = _cost_of_many(members, num_launches)
    return Finding(
        f"late-rank-{first.pattern}",
        severity_of_cost(cost),
        ranks,
        f"{cell_place(cell)}: {ranks}{_hosts(evidence, members)} are late, each "
        f"{_how(pd.concat([one.rows for one in members]))}, which they lose {where}; the others "
        "wait for them.",
        _remedy(evidence, cell, first.phase, _MANY),
        "likely" if least > 1 and not _crowd(evidence, cell) else "possible",
        evidence=f"{len(members)} ranks, each in {'' if least == num_launches else 'at least '}"
        f"{least} of {num_launches} launches; "
        f"{_explained(first.phase, share)}{_beside(evidence, cell)}",
        **cost_of(cell, cost, cost_ns, cost),
    )


def _cost_of_many(members: list[_Late], num_launches: int) -> tuple[float, float]:
    """What they cost together, share and ns: a mean over all launches of the cell."""
    rows = pd.concat([one.rows for one in members])
    by_launch = rows.groupby(LAUNCH)[["cost_together_share", "cost_together_ns"]].max()
    share, cost_ns = (float(total) / num_launches for total in by_launch.sum())
    own = max(members, key=lambda one: one.cost)
    return (share, cost_ns) if share > own.cost else (own.cost, own.cost_ns)


def _how(rows: pd.DataFrame) -> str:
    often = units.percent(float(rows["share_late"].mean()), 0)
    late = units.milliseconds(float(rows["lateness_when_late_ns"].mean()))
    return f"in {often} of the steps by {late}"


def _where(phase: str) -> str:
    if phase == PAUSE:
        return "outside every phase"
    return "in no single phase" if phase == UNATTRIBUTED else f"in {{}} {phase} phase"


def _remedy(evidence: Evidence, cell: Cell, phase: str, words: dict[str, str]) -> str:
    on_gpus = cell_setting(evidence.run, cell).on_gpus
    tools = _TOOLS_OF_GPUS if on_gpus else _TOOLS_OF_CPUS
    told = _REMEDY_OF_PHASE[phase].format(tools=tools, **words)
    if _crowd(evidence, cell):
        return f"end the other processes and measure again; else {told}"
    return told


def _crowd(evidence: Evidence, cell: Cell) -> str:
    """Who competed for the cores of a job on one host; of others' hosts that is not known."""
    setting = cell_setting(evidence.run, cell)
    return setting.crowd if setting.num_hosts <= 1 else ""


def _beside(evidence: Evidence, cell: Cell) -> str:
    crowd = _crowd(evidence, cell)
    return f"; {crowd}" if crowd else ""


def _hosts(evidence: Evidence, members: list[_Late]) -> str:
    """`` (node1)``; nothing where the hosts are not known, or one rank ran on several."""
    ranks = evidence.run.ranks.astype({"pass_id": str, "hostname": str})
    passes = {name for one in members for name in one.rows["pass_id"]}
    own = ranks[ranks["rank"].isin([one.rank for one in members]) & ranks["pass_id"].isin(passes)]
    known = own[own["hostname"] != ""].rename(columns={"hostname": "host"})
    if known.empty or (len(members) == 1 and is_several(known, "host")):
        return ""
    return f" ({hosts_of(known)})"


def _explained(phase: str, share: float) -> str:
    """How much of the lateness a phase is; beyond all of it other phases make up for some."""
    which = "its largest phase" if phase == UNATTRIBUTED else phase
    if share > 1:
        more = units.percent(share - 1, 0)
        return f"{which} explains all of the lateness, and {more} more that other phases make up"
    return f"{which} explains {units.percent(share, 0)} of the lateness"


def late_by_turns(evidence: Evidence) -> Iterator[Finding]:
    """Ranks that are slow by turns, none more than the others but for one that is called late."""
    with_late_rank = {(one.model, one.np, one.engine) for one in late_rank(evidence)}
    for cell, share, cost_ns in costly_terms(evidence, TRANSIENT_IMBALANCE):
        crowd = cell_setting(evidence.run, cell).crowd
        has_late_rank = (cell["model"], cell["np"], cell["engine"]) in with_late_rank
        others = "the rank called late has its part in it" if has_late_rank else "none stands out"
        yield Finding(
            "late-by-turns",
            severity_of_cost(share),
            cell_name(cell),
            f"{cell_place(cell)}: now one rank is the slowest, now another, which costs "
            f"{units.percent(share)} of the step; {others}.",
            ("end the other processes and measure again; else " if crowd else "")
            + "even out the work per sample (bucket by length, equal shards), pin ranks to cores, "
            "and look for jitter: other processes, power capping, shared storage",
            "possible" if crowd else "likely",
            evidence=crowd,
            **cost_of(cell, share, cost_ns, ceiling_share(evidence, cell, NO_JITTER)),
        )
