"""Chakra execution traces read back by protobuf with what the shipped `et_def.proto` says.

Independent of the module that writes them: types and numbers are those of the text.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32

from tests.builders.places import ROOT

PROTO = ROOT / "hvdprof" / "report" / "et_def.proto"
_BLOCK = re.compile(r"^(message|enum) (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^( +)(repeated )?(\w+) (\w+) = (\d+);", re.MULTILINE)
_VALUE = re.compile(r"^ +(\w+) = (\d+);", re.MULTILINE)


@dataclass(frozen=True)
class ChakraFile:
    """A file: what its head says by name, and its nodes."""

    about: dict[str, str]
    nodes: list[Any]


def proto_enums() -> dict[str, dict[str, int]]:
    """Names and numbers of the enumerations in the text."""
    return {
        name: {value: int(number) for value, number in _VALUE.findall(body)}
        for kind, name, body in _BLOCK.findall(PROTO.read_text(encoding="utf-8"))
        if kind == "enum"
    }


def proto_messages() -> dict[str, dict[str, tuple[str, int]]]:
    """Kind and number of every field in the text; deeper indented ones are of the oneof."""
    return {
        name: {
            field: (
                ("oneof " if len(indent) > 2 else "") + repeated + of_type,
                int(number),
            )
            for indent, repeated, of_type, field, number in _FIELD.findall(body)
        }
        for kind, name, body in _BLOCK.findall(PROTO.read_text(encoding="utf-8"))
        if kind == "message"
    }


def read_chakra(path: Path) -> ChakraFile:
    """The head and the nodes of a file; every byte must belong to one."""
    classes = _classes()
    data, at, parts = path.read_bytes(), 0, []
    while at < len(data):
        length, at = _DecodeVarint32(data, at)
        assert at + length <= len(data)
        parts.append(data[at : at + length])
        at += length
    head = classes["GlobalMetadata"].FromString(parts[0])
    about = {one.name: one.string_val for one in head.attr}
    return ChakraFile(about, [classes["Node"].FromString(part) for part in parts[1:]])


def attributes(node: Any) -> dict[str, Any]:
    """The attributes of a node by name."""
    return {one.name: getattr(one, one.WhichOneof("value")) for one in node.attr}


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="text.proto", package="Text", syntax="proto3")
    enums, messages = proto_enums(), proto_messages()
    for enum_name, values in enums.items():
        enum = file.enum_type.add(name=enum_name)
        for name, number in values.items():
            enum.value.add(name=name, number=number)
    kinds = descriptor_pb2.FieldDescriptorProto
    for message_name, fields in messages.items():
        message = file.message_type.add(name=message_name)
        if any(kind.startswith("oneof") for kind, _ in fields.values()):
            message.oneof_decl.add(name="value")
        for name, (kind, number) in fields.items():
            label, _, of_type = kind.rpartition(" ")
            field = message.field.add(name=name, number=number)
            field.label = kinds.LABEL_REPEATED if label == "repeated" else kinds.LABEL_OPTIONAL
            if label == "oneof":
                field.oneof_index = 0
            if of_type in messages or of_type in enums:
                field.type = kinds.TYPE_MESSAGE if of_type in messages else kinds.TYPE_ENUM
                field.type_name = f".Text.{of_type}"
            else:
                field.type = kinds.Type.Value(f"TYPE_{of_type.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"Text.{name}"))
        for name in messages
    }
