"""Graphs of steps as files of Chakra's execution trace format."""

from pathlib import Path
from typing import IO, cast

from hvdprof.model.run import Run
from hvdprof.report.chakra.chakra_schema import (
    COMM_COLL_NODE,
    COMP_NODE,
    ENUMS,
    Message,
    MessageClass,
    message_classes,
)
from hvdprof.report.chakra.step_graph import GraphNode, rank_graphs
from hvdprof.report.chrome.trace_selection import select_pass
from hvdprof.rundir.written_file import check_new, open_whole

SUFFIX = ".et"
VERSION = "0.0.4"
_KINDS = {
    "ALLREDUCE": "ALL_REDUCE",
    # ADASUM reduces to one array on all ranks, too; Chakra has no kind of its own for it.
    "ADASUM": "ALL_REDUCE",
    "ALLGATHER": "ALL_GATHER",
    "BROADCAST": "BROADCAST",
    "ALLTOALL": "ALL_TO_ALL",
    "REDUCESCATTER": "REDUCE_SCATTER",
}


def write_chakra(
    run: Run, prefix: Path, pass_id: str | None, model: str | None, *, overwrite: bool
) -> list[Path]:
    """Write ``PREFIX.RANK.et`` for every rank of a pass; the paths.

    Args:
        run: The run.
        prefix: Path and first part of the names, as ASTRA-sim takes it.
        pass_id: The pass; see ``trace_selection.select_pass``.
        model: Only the segments of this model.
        overwrite: Whether files of these names may be replaced.

    Raises:
        MissingExtraError: protobuf is not installed.
        UsageError: No pass or no model of the wanted name was recorded.
        UnreadableInputError: The pass holds no measured step with collectives.
        StorageError: A file exists and may not be replaced, or cannot be written.
    """
    classes = message_classes()
    traced = select_pass(run, pass_id, model)
    graphs = rank_graphs(run, traced)
    origin_ns = min(node.start_ns for graph in graphs.values() for node in graph)
    about = {"run": run.manifest.name, "pass": traced.pass_id, "np": str(traced.size)}
    about["models"] = ",".join(dict.fromkeys(traced.segments["model"].astype(str)))
    paths = {rank: prefix.with_name(f"{prefix.name}.{rank}{SUFFIX}") for rank in graphs}
    for path in paths.values():
        check_new(path, overwrite=overwrite)
    for rank, graph in graphs.items():
        with open_whole(paths[rank], binary=True, overwrite=overwrite) as file:
            _write(cast("IO[bytes]", file), classes, {**about, "rank": str(rank)}, graph, origin_ns)
    return list(paths.values())


def _write(
    file: IO[bytes],
    classes: dict[str, MessageClass],
    about: dict[str, str],
    graph: list[GraphNode],
    origin_ns: int,
) -> None:
    attribute = classes["AttributeProto"]
    head = [attribute(name=name, string_val=value) for name, value in about.items()]
    _append(file, classes["GlobalMetadata"](version=VERSION, attr=head))
    for node in graph:
        _append(file, _message(node, classes["Node"], attribute, origin_ns))


def _message(
    node: GraphNode, make: MessageClass, attribute: MessageClass, origin_ns: int
) -> Message:
    attributes = [attribute(name="is_cpu_op", bool_val=node.on_cpu)]
    if node.collective:
        kind = ENUMS["CollectiveCommType"][_KINDS[node.collective]]
        attributes += [
            attribute(name="comm_type", int64_val=kind),
            attribute(name="comm_size", int64_val=node.size_bytes),
            attribute(name="num_tensors", int64_val=node.num_tensors),
        ]
    return make(
        id=node.id,
        name=node.name,
        type=COMM_COLL_NODE if node.collective else COMP_NODE,
        data_deps=node.needs,
        start_time_micros=max(0, round((node.start_ns - origin_ns) / 1000)),
        duration_micros=round(node.dur_ns / 1000),
        attr=attributes,
    )


def _append(file: IO[bytes], message: Message) -> None:
    data = message.SerializeToString()
    left, length = len(data), bytearray()
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    length.append(left)
    file.write(bytes(length) + data)
