"""The messages of `et_def.proto`, declared for protobuf without generated code.

Generated modules refuse another protobuf than that of their compiler. A test compares the
declarations with `et_def.proto`.
"""

from typing import Protocol

from hvdprof.errors import MissingExtraError

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
