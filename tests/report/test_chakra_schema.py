"""The declared messages are those of the shipped text, and of Chakra's own schema."""

import builtins

import pytest

pytest.importorskip("google.protobuf", reason="the extra chakra is not installed")

from hvdprof.errors import MissingExtraError
from hvdprof.report.chakra_trace import ENUMS, MESSAGES, message_classes
from tests.builders.chakra_files import proto_enums, proto_messages


def test_the_declarations_are_those_of_the_shipped_text():
    assert proto_enums() == ENUMS
    assert proto_messages() == MESSAGES


def test_a_node_has_the_bytes_that_chakra_reads():
    # Written by hand from Chakra's field numbers: tag = number * 8 + wire type (0 varint, 2 bytes).
    classes = message_classes()
    size = classes["AttributeProto"](name="comm_size", int64_val=300)
    node = classes["Node"](id=5, name="a", type=7, data_deps=[3, 4], duration_micros=9, attr=[size])
    attribute = bytes([0x0A, 9, *b"comm_size", 0x48, 0xAC, 0x02])
    head = [0x08, 5, 0x12, 1, ord("a"), 0x18, 7, 0x2A, 2, 3, 4, 0x38, 9]
    assert node.SerializeToString() == bytes([*head, 0x52, len(attribute), *attribute])


def test_without_protobuf_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments, **values):
        if name.startswith("google"):
            raise ImportError(name)
        return real(name, *arguments, **values)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError) as raised:
        message_classes()
    assert raised.value.hint == "pip install 'hvdprof[chakra]'"
