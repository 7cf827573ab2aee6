"""Rules on stragglers: one rank, many alike, and rotating ones.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.cell_finding import (
    cell_name,
    cell_place,
    cost_of,
    costly_terms,
    gain_share,
)
from hvdprof.analyze.findings.evidence import Cell, Evidence, is_base
from hvdprof.analyze.findings.finding import (
    SMALLEST_COST,
    Finding,
    as_sentence,
    otherwise,
    sentences,
    severity_of_cost,
)
from hvdprof.analyze.findings.nccl_rules.nccl_rule import hosts_of, is_several, ranks_text
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.analyze.stragglers.stragglers import PAUSE, UNATTRIBUTED
from hvdprof.model.causes import JITTER, NO_JITTER, ON_TIME
from hvdprof.model.launch_key import LAUNCH

SHARE_OF_LAUNCHES = 0.5
MOST_SEPARATE = 3
"""More stragglers of one kind are one finding: on a slow host all ranks are stragglers."""

_PERSISTENT = "persistent"
_END_OTHERS = "End the other processes and measure again."
_SLOW_COMPUTE = (
    "Check clocks, temperature and other processes of {host} ({tools}). Check for uneven work per "
    "sample."
)
_TOOLS_OF_GPUS = "`nvidia-smi -q -d CLOCK,PERFORMANCE`, `top`"
_TOOLS_OF_CPUS = "`top`, `grep MHz /proc/cpuinfo`"

_ACTION_OF_PHASE = {
    "data": "Raise num_workers= and prefetch_factor= on {ranks}, or move the input to faster "
    "storage. With tf.data, use .prefetch(). Check that all ranks read equal shards.",
    "forward": _SLOW_COMPUTE,
    "backward": _SLOW_COMPUTE,
    "optimizer": "Move work that only {ranks} {do} out of optimizer.step(). Checkpoints and "
    "logging on one rank delay all.",
    PAUSE: "Look for what only {ranks} {do} between steps: logging, checkpoints, evaluation. For "
    "garbage collection, call gc.freeze().",
    UNATTRIBUTED: "Check load, clocks and memory of {host} ({tools}). No single phase explains the "
    "delay.",
}


@dataclass(frozen=True, slots=True)
class _Straggler:
    """A straggler in most launches of a cell: ``rows`` of STRAGGLERS of these launches.

    Its cost is a mean over all launches of the cell.
    """

    rank: int
    pattern: str
    phase: str
    rows: pd.DataFrame
    cost: float
    cost_ns: float

    @property
    def phase_share(self) -> float:
        """The share of the delay that the phase explains, in the launches that name it."""
        return float(self.rows.loc[self.rows["phase"] == self.phase, "phase_share"].mean())


def stragglers(evidence: Evidence) -> Iterator[Finding]:
    """A rank that is a persistent or transient straggler in most launches of a cell.

    Stragglers of one kind are one finding where they are more than three, or cost far more
    together than each alone: the other ranks would wait for the rest of them.
    """
    for cell, launches in _by_cell(evidence):
        num_launches = len(launches[LAUNCH].drop_duplicates())
        alike: dict[tuple[str, str], list[_Straggler]] = {}
        for straggler in _named(launches, num_launches):
            alike.setdefault((straggler.pattern, straggler.phase), []).append(straggler)
        for members in alike.values():
            if _are_one_finding(members, num_launches):
                yield _many(evidence, cell, members, num_launches)
            else:
                yield from (_alone(evidence, cell, one, num_launches) for one in members)


def rotating_stragglers(evidence: Evidence) -> Iterator[Finding]:
    """Jitter: the slowest rank changes from step to step."""
    with_straggler = {(one.model, one.np, one.engine) for one in stragglers(evidence)}
    for term in costly_terms(evidence, JITTER):
        cell = term.cell
        crowd = cell_setting(evidence.run, cell).crowd
        is_named = (cell["model"], cell["np"], cell["engine"]) in with_straggler
        yield Finding(
            "rotating-stragglers",
            severity_of_cost(term.share),
            cell_name(cell),
            "Rotating stragglers (jitter)",
            sentences(
                f"{cell_place(cell)}: the slowest rank changes from step to step, which costs "
                f"{term.share_text} of the step.",
                "The straggler named separately is a part of it."
                if is_named
                else "No single rank stands out.",
                as_sentence(crowd),
            ),
            otherwise(
                _END_OTHERS if crowd else "",
                "Pin ranks to cores and even out the work per sample (bucket by length, equal "
                "shards). Look for jitter: other processes, power capping, shared storage.",
            ),
            "possible" if crowd else "likely",
            **cost_of(cell, term.share, term.cost_ns, gain_share(evidence, cell, NO_JITTER)),
        )


def _are_one_finding(members: list[_Straggler], num_launches: int) -> bool:
    if not 1 < len(members) <= MOST_SEPARATE:
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


def _named(launches: pd.DataFrame, num_launches: int) -> Iterator[_Straggler]:
    named = launches[launches["pattern"].isin([_PERSISTENT, "transient"])]
    for rank, rows in named.groupby("rank"):
        # A straggler in one launch out of three may have been placed badly there.
        if len(rows) >= max(1.0, SHARE_OF_LAUNCHES * num_launches):
            costs = launches.loc[launches["rank"] == rank, ["cost_share", "cost_ns"]].sum()
            yield _Straggler(
                rank=int(str(rank)),
                pattern=str(rows["pattern"].mode().iloc[0]),
                phase=str(rows["phase"].value_counts().index[0]),
                rows=rows,
                # The gain is a mean over launches; one in which it was on time counts, too.
                cost=float(costs["cost_share"]) / num_launches,
                cost_ns=float(costs["cost_ns"]) / num_launches,
            )


def _alone(evidence: Evidence, cell: Cell, one: _Straggler, num_launches: int) -> Finding:
    rows, crowd = one.rows, _crowd(evidence, cell)
    last = units.percent(float(rows["share_last"].mean()), 0)
    return Finding(
        f"{one.pattern}-straggler",
        severity_of_cost(one.cost),
        f"rank {one.rank}",
        f"{one.pattern.capitalize()} straggler: rank {one.rank}, {_where(one.phase)}",
        sentences(
            f"{cell_place(cell)}: the other ranks wait for rank {one.rank}{_hosts(evidence, [one])}"
            f" in {_how(rows)}.",
            f"It is last in {last} of the steps, in {len(rows)} of {num_launches} launches.",
            _explained(one.phase, one.phase_share),
            as_sentence(crowd),
        ),
        _action(evidence, cell, one.phase, [one]),
        "likely" if len(rows) > 1 and not crowd else "possible",
        **cost_of(cell, one.cost, one.cost_ns, gain_share(evidence, cell, ON_TIME, one.rank)),
    )


def _many(evidence: Evidence, cell: Cell, members: list[_Straggler], num_launches: int) -> Finding:
    first, least = members[0], min(len(one.rows) for one in members)
    ranks, crowd = ranks_text([one.rank for one in members]), _crowd(evidence, cell)
    share = sum(one.phase_share for one in members) / len(members)
    cost, cost_ns = _cost_of_many(members, num_launches)
    short = ranks if len(members) == 2 else f"{len(members)} ranks"
    at_least = "" if least == num_launches else "at least "
    return Finding(
        f"{first.pattern}-straggler",
        severity_of_cost(cost),
        ranks,
        f"{first.pattern.capitalize()} stragglers: {short}, {_where(first.phase)}",
        sentences(
            f"{cell_place(cell)}: the other ranks wait for {ranks}{_hosts(evidence, members)}.",
            f"Each of these {len(members)} ranks is late in "
            f"{_how(pd.concat([one.rows for one in members]))}, in {at_least}{least} of "
            f"{num_launches} launches.",
            _explained(first.phase, share),
            as_sentence(crowd),
        ),
        _action(evidence, cell, first.phase, members),
        "likely" if least > 1 and not crowd else "possible",
        **cost_of(cell, cost, cost_ns, cost),
    )


def _cost_of_many(members: list[_Straggler], num_launches: int) -> tuple[float, float]:
    """What they cost together, share and ns: a mean over all launches of the cell."""
    rows = pd.concat([one.rows for one in members])
    by_launch = rows.groupby(LAUNCH)[["cost_together_share", "cost_together_ns"]].max()
    share, cost_ns = (float(total) / num_launches for total in by_launch.sum())
    own = max(members, key=lambda one: one.cost)
    return (share, cost_ns) if share > own.cost else (own.cost, own.cost_ns)


def _how(rows: pd.DataFrame) -> str:
    often = units.percent(float(rows["share_late"].mean()), 0)
    late = units.milliseconds(float(rows["lateness_when_late_ns"].mean()))
    return f"{often} of the steps, by {late}"


def _where(phase: str) -> str:
    if phase == PAUSE:
        return "between steps"
    return "no single phase" if phase == UNATTRIBUTED else f"{phase} phase"


def _action(evidence: Evidence, cell: Cell, phase: str, members: list[_Straggler]) -> str:
    on_gpus = cell_setting(evidence.run, cell).on_gpus
    is_one = len(members) == 1
    hosts = _hosts(evidence, members).strip(" ()")
    action = _ACTION_OF_PHASE[phase].format(
        tools=_TOOLS_OF_GPUS if on_gpus else _TOOLS_OF_CPUS,
        ranks=f"rank {members[0].rank}" if is_one else "these ranks",
        do="does" if is_one else "do",
        host=hosts or ("the straggler's host" if is_one else "their hosts"),
    )
    return otherwise(_END_OTHERS if _crowd(evidence, cell) else "", action)


def _crowd(evidence: Evidence, cell: Cell) -> str:
    """The processes that competed for the cores of a job on one host; unknown for other hosts."""
    setting = cell_setting(evidence.run, cell)
    return setting.crowd if setting.num_hosts <= 1 else ""


def _hosts(evidence: Evidence, members: list[_Straggler]) -> str:
    """`` (node1)``; empty where the hosts are unknown, or one rank ran on several."""
    ranks = evidence.run.ranks.astype({"pass_id": str, "hostname": str})
    passes = {name for one in members for name in one.rows["pass_id"]}
    own = ranks[ranks["rank"].isin([one.rank for one in members]) & ranks["pass_id"].isin(passes)]
    known = own[own["hostname"] != ""].rename(columns={"hostname": "host"})
    if known.empty or (len(members) == 1 and is_several(known, "host")):
        return ""
    return f" ({hosts_of(known)})"


def _explained(phase: str, share: float) -> str:
    """How much of the delay a phase explains; beyond all of it, other phases offset some."""
    which = "The largest phase" if phase == UNATTRIBUTED else f"The {phase} phase"
    if phase == PAUSE:
        which = "Time between steps"
    if share > 1:
        more = units.percent(share - 1, 0)
        return f"{which} explains all of the delay, and {more} more that other phases offset."
    return f"{which} explains {units.percent(share, 0)} of the delay."
