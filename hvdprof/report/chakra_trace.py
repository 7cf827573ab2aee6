"""Graphs of steps as files of Chakra's execution trace format."""

from pathlib import Path
from typing import IO, Protocol, cast

from hvdprof.errors import MissingExtraError
from hvdprof.model.run import Run
from hvdprof.report.chrome.trace_selection import select_pass
from hvdprof.report.step_graph import GraphNode, rank_graphs
from hvdprof.rundir.written_file import check_new, open_whole

PACKAGE = "ChakraProtoMsg"
COMP_NODE, COMM_COLL_NODE = 4, 7

ENUMS: dict[str, dict[str, int]] = {
    "NodeType": {
        "INVALID_NODE": 0,
        "METADATA_NODE": 1,
        "COMP_NODE": COMP_NODE,
        "COMM_COLL_NODE": COMM_COLL_NODE,
    },
    "CollectiveCommType": {
        "ALL_REDUCE": 0,
        "ALL_GATHER": 2,
        "BROADCAST": 5,
        "ALL_TO_ALL": 6,
        "REDUCE_SCATTER": 7,
    },
}
"""Names and numbers of every enumeration."""

MESSAGES: dict[str, dict[str, tuple[str, int]]] = {
    "BoolList": {"values": ("repeated bool", 1)},
    "AttributeProto": {
        "name": ("string", 1),
        "doc_string": ("string", 2),
        "double_val": ("oneof double", 3),
        "int32_val": ("oneof int32", 7),
        "int64_val": ("oneof int64", 9),
        "uint64_val": ("oneof uint64", 13),
        "bool_val": ("oneof bool", 27),
        "bool_list": ("oneof BoolList", 28),
        "string_val": ("oneof string", 29),
    },
    "GlobalMetadata": {"version": ("string", 1), "attr": ("repeated AttributeProto", 2)},
    "Node": {
        "id": ("uint64", 1),
        "name": ("string", 2),
        "type": ("NodeType", 3),
        "ctrl_deps": ("repeated uint64", 4),
        "data_deps": ("repeated uint64", 5),
        "start_time_micros": ("uint64", 6),
        "duration_micros": ("uint64", 7),
        "attr": ("repeated AttributeProto", 10),
    },
}
"""Fields of every message: kind and number. ``oneof`` is that of the values of an attribute."""


class Message(Protocol):
    """What is used of a protobuf message."""

    def SerializeToString(self) -> bytes:  # noqa: N802 (protobuf's own name)
        """The message as bytes."""


class MessageClass(Protocol):
    """What makes messages of one type."""

    def __call__(self, **fields: object) -> Message:
        """A message with these fields."""


def message_classes() -> dict[str, MessageClass]:
    """The classes of the messages by name.

    Raises:
        MissingExtraError: protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MissingExtraError("hvdprof export --format chakra", extra="chakra") from error
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package=PACKAGE, syntax="proto3")
    for enum_name, values in ENUMS.items():
        enum = file.enum_type.add(name=enum_name)
        for name, number in values.items():
            enum.value.add(name=name, number=number)
    kinds = descriptor_pb2.FieldDescriptorProto
    for message_name, fields in MESSAGES.items():
        message = file.message_type.add(name=message_name)
        if any(kind.startswith("oneof ") for kind, _ in fields.values()):
            message.oneof_decl.add(name="value")
        for name, (kind, number) in fields.items():
            label, _, of_type = kind.rpartition(" ")
            field = message.field.add(name=name, number=number)
            field.label = kinds.LABEL_REPEATED if label == "repeated" else kinds.LABEL_OPTIONAL
            if label == "oneof":
                field.oneof_index = 0
            if of_type in MESSAGES or of_type in ENUMS:
                field.type = kinds.TYPE_MESSAGE if of_type in MESSAGES else kinds.TYPE_ENUM
                field.type_name = f".{PACKAGE}.{of_type}"
            else:
                field.type = kinds.Type.Value(f"TYPE_{of_type.upper()}")
    # A pool of its own: another package of the process may have registered Chakra's whole schema.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in MESSAGES
    }


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
