"""The recorded steps of one pass as graphs: work of a rank, negotiations, and collectives.

A rank's own work is a chain that is cut where a gradient is ready. A negotiation begins when the
rank's gradients of an execution are ready and the execution before has ended; it lasts as long as
Horovod took from the last gradient of any rank to the start. The update needs the last collective.
"""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.model.run import Run
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from hvdprof.report.chrome.trace_selection import TracedPass, rows_of

_OWN_PARTS = ("data", "forward")
_LAUNCH = ["pass_id", "segment"]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """Work or a collective of one rank; times in ns on rank 0's clock, ``needs`` are ids.

    ``collective`` is empty for work. ``on_cpu`` marks negotiations, which occupy no accelerator.
    """

    id: int
    name: str
    start_ns: int
    dur_ns: int
    needs: tuple[int, ...]
    on_cpu: bool = False
    collective: str = ""
    size_bytes: int = 0
    num_tensors: int = 0


@dataclass(frozen=True, slots=True)
class Execution:
    """One collective of a step; ``lag_ns`` is from the last gradient of any rank to its start."""

    collective: str
    tensors: tuple[str, ...]
    start_ns: int
    dur_ns: int
    size_bytes: int
    lag_ns: int


def rank_graphs(run: Run, traced: TracedPass) -> dict[int, list[GraphNode]]:
    """The nodes of every rank in the order of their ids, warm-up steps excluded.

    Raises:
        UnreadableInputError: The pass holds no measured step with collectives.
    """
    steps = traced.steps[~traced.steps["warmup"]]
    executions = _executions(run, traced)
    steps = steps[
        [key in executions for key in zip(steps["segment"].astype(str), steps["step"], strict=True)]
    ]
    if steps.empty:
        raise UnreadableInputError(
            f"Pass {traced.pass_id} holds no measured step with collectives, so it has no graph.",
            hint="Choose a trace pass with --pass; throughput passes record no collectives.",
        )
    ready, parts = _ready_times(traced), _parts(traced)
    graphs: dict[int, list[GraphNode]] = {}
    for rank, of_rank in steps.groupby("rank"):
        graph = _Graph()
        for row in rows_of(of_rank.sort_values("start_ns")):
            key = (str(row.segment), int(row.step), int(row.rank))
            graph.add_step(row, parts.get(key, {}), ready.get(key, []), executions[key[:2]])
        graphs[int(str(rank))] = graph.nodes
    return graphs


@dataclass(slots=True)
class _Graph:
    """The graph of one rank, step after step."""

    nodes: list[GraphNode] = field(default_factory=list)
    _last: tuple[int, ...] = ()

    def add_step(
        self,
        row: Any,
        parts: dict[str, tuple[int, int]],
        ready: list[tuple[int, str]],
        executions: list[Execution],
    ) -> None:
        """Append a step: own work, collectives, and what follows them."""
        start_ns, end_ns = int(row.start_ns), int(row.start_ns + row.dur_ns)
        label = f"step {int(row.step)}"
        now_ns, made = start_ns, {}
        for name in _OWN_PARTS:
            if name in parts and parts[name][1] > now_ns:
                now_ns = self._work(f"{label} {name}", now_ns, parts[name][1])
        for ready_ns, tensor in ready:
            if ready_ns > now_ns:
                now_ns = self._work(f"{label} backward to {tensor}", now_ns, ready_ns)
            made[tensor] = self._last
        blocked_ns = 0 if pd.isna(row.blocked_ns) else int(row.blocked_ns)
        arrived_ns = parts["blocked"][0] if "blocked" in parts else now_ns
        if arrived_ns > now_ns:
            now_ns = self._work(f"{label} backward", now_ns, arrived_ns)
        before, last = self._last, self._collectives(label, made, executions)
        # Without a record of blocked time, what follows the last collective is the rank's own.
        tail_ns = end_ns - now_ns - blocked_ns if "blocked" in parts else end_ns - last[1]
        self._last = (*before, last[0])
        self._work(f"{label} optimizer", end_ns - max(0, tail_ns), end_ns)

    def _collectives(
        self, label: str, made: dict[str, tuple[int, ...]], executions: list[Execution]
    ) -> tuple[int, int]:
        """Append the collectives; id and end of the last one."""
        previous: tuple[int, ...] = ()
        for number, one in enumerate(executions):
            gradients = {node for tensor in one.tensors for node in made.get(tensor, self._last)}
            # The last of a chain needs all earlier ones.
            needs = (max(gradients), *previous) if gradients else previous
            what = f"{label} {one.collective} {number}"
            start_ns = one.start_ns - one.lag_ns
            lag = self._add(f"{what} negotiation", start_ns, one.lag_ns, needs, on_cpu=True)
            node = self._add(
                what,
                one.start_ns,
                one.dur_ns,
                (lag,),
                collective=one.collective,
                size_bytes=one.size_bytes,
                num_tensors=len(one.tensors),
            )
            previous = (node,)
        return previous[0], max(execution.start_ns + execution.dur_ns for execution in executions)

    def _work(self, name: str, start_ns: int, end_ns: int) -> int:
        self._last = (self._add(name, start_ns, end_ns - start_ns, self._last),)
        return end_ns

    def _add(
        self, name: str, start_ns: int, dur_ns: int, needs: tuple[int, ...], **values: Any
    ) -> int:
        node = GraphNode(len(self.nodes), name, start_ns, dur_ns, needs, **values)
        self.nodes.append(node)
        return node.id


def _executions(run: Run, traced: TracedPass) -> dict[tuple[str, int], list[Execution]]:
    """The executions of each step in order, those with a known end and size."""
    executions, uses = (
        _of_pass(run.table(name), traced) for name in (EXECUTIONS.name, TENSOR_USES.name)
    )
    last_ready: dict[tuple[str, int, str], int] = {}
    for gradient in rows_of(traced.arrivals):
        name = (str(gradient.segment), int(gradient.step), str(gradient.tensor))
        last_ready[name] = max(last_ready.get(name, 0), int(gradient.ready_ns))
    tensors: dict[tuple[str, int], list[str]] = {}
    for use in rows_of(uses[uses["fusion_id"] >= 0]):
        tensors.setdefault((str(use.segment), int(use.fusion_id)), []).append(str(use.tensor))
    found: dict[tuple[str, int], list[Execution]] = {}
    ends: dict[tuple[str, int], int] = {}
    whole = executions[executions["dur_ns"].notna() & executions["size_bytes"].notna()]
    for row in rows_of(whole[whole["step"] >= 0].sort_values("start_ns")):
        key = (str(row.segment), int(row.step))
        names = tuple(tensors.get((key[0], int(row.fusion_id)), ()))
        known = [last_ready[(*key, name)] for name in names if (*key, name) in last_ready]
        begin_ns = max([*known, ends.get(key, 0)], default=0)
        start_ns = int(row.start_ns)
        lag_ns = max(0, start_ns - begin_ns) if begin_ns else 0
        found.setdefault(key, []).append(
            Execution(
                str(row.collective), names, start_ns, int(row.dur_ns), int(row.size_bytes), lag_ns
            )
        )
        ends[key] = start_ns + int(row.dur_ns)
    return found


def _of_pass(table: pd.DataFrame, traced: TracedPass) -> pd.DataFrame:
    segments = set(traced.segments["segment"].astype(str))
    here = table["pass_id"].astype(str) == traced.pass_id
    return table[here & table["segment"].astype(str).isin(segments)]


def _ready_times(traced: TracedPass) -> dict[tuple[str, int, int], list[tuple[int, str]]]:
    found: dict[tuple[str, int, int], list[tuple[int, str]]] = {}
    for row in rows_of(traced.arrivals.sort_values("ready_ns")):
        key = (str(row.segment), int(row.step), int(row.rank))
        found.setdefault(key, []).append((int(row.ready_ns), str(row.tensor)))
    return found


def _parts(traced: TracedPass) -> dict[tuple[str, int, int], dict[str, tuple[int, int]]]:
    """Begin and end of each phase by segment, step and rank; of several, first and last."""
    events = traced.events
    parts = events[(events["source"] == "recorder") & (events["phase"] == "part")]
    found: dict[tuple[str, int, int], dict[str, tuple[int, int]]] = {}
    for row in rows_of(parts.sort_values("start_ns")):
        phases = found.setdefault((str(row.segment), int(row.step), int(row.rank)), {})
        begin_ns, end_ns = int(row.start_ns), int(row.start_ns + row.dur_ns)
        first, last = phases.get(str(row.activity), (begin_ns, end_ns))
        phases[str(row.activity)] = (first, max(last, end_ns))
    return found
