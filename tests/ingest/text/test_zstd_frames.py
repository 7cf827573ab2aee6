import io
import struct
from collections.abc import Callable

import pytest

from hvdprof.ingest.text.zstd_frames import ends_early

zstandard = pytest.importorskip("zstandard", reason="zstandard is an optional package")

Packing = Callable[[bytes], bytes]

VARIED = b"".join(b"%d " % (number * 7919 % 100_003) for number in range(60_000))
CONTENTS = {
    "empty": b"",
    "one byte": b"x",
    "runs": b"y" * 400_000,
    "several blocks": VARIED,
}


def one_shot(content: bytes) -> bytes:
    return bytes(zstandard.ZstdCompressor(write_content_size=True).compress(content))


def checked(content: bytes) -> bytes:
    return bytes(zstandard.ZstdCompressor(write_checksum=True, level=1).compress(content))


def streamed(content: bytes) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return bytes(packer.compress(content) + packer.flush())


def with_a_skippable_frame(content: bytes) -> bytes:
    return struct.pack("<II", 0x184D2A53, 5) + b"12345" + streamed(content)


def in_two_frames(content: bytes) -> bytes:
    half = len(content) // 2
    return streamed(content[:half]) + checked(content[half:])


PACKINGS = [one_shot, checked, streamed, with_a_skippable_frame, in_two_frames]


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
@pytest.mark.parametrize("pack", PACKINGS)
def test_only_what_is_cut_within_a_frame_ends_early(pack: Packing, content: bytes) -> None:
    packed = pack(content)
    assert not ends_early(io.BytesIO(packed), len(packed))
    places = {*range(1, min(len(packed), 40)), *range(41, len(packed), 997), len(packed) - 1}
    for length in places:
        cut = packed[:length]
        whole_frames = length in frame_borders(pack, content)
        assert ends_early(io.BytesIO(cut), length) == (not whole_frames), length


def frame_borders(pack: Packing, content: bytes) -> set[int]:
    if pack is with_a_skippable_frame:
        return {13}
    if pack is in_two_frames:
        return {len(streamed(content[: len(content) // 2]))}
    return set()


def test_other_damage_is_left_to_the_decoder() -> None:
    packed = streamed(VARIED)
    assert not ends_early(io.BytesIO(packed + b"rubbish"), len(packed) + 7)
    assert not ends_early(io.BytesIO(b"no zstd data"), 12)
