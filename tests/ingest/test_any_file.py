"""With any bytes in a file and in its name, reading ends in tables or in one message."""

import gzip
import io
import json
import os
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hvdprof.api import all_tables, load_run
from hvdprof.errors import HvdprofError
from hvdprof.model.notes import texts
from tests.builders.examples import examples
from tests.builders.nccl_log import job
from tests.builders.recorder_lines import recorder_lines
from tests.builders.run_directory import PassSpec, SegmentSpec
from tests.builders.timeline_writer import TimelineWriter

Pack = Callable[[bytes], bytes]


def _timeline() -> bytes:
    writer = TimelineWriter()
    for _ in range(3):
        writer.negotiate(["allreduce.a"])
        writer.execute(["allreduce.a"])
    return writer.text().encode()


def _recorder() -> bytes:
    lines = recorder_lines(PassSpec(size=1, segments=[SegmentSpec(num_steps=2)]), 0)
    return "\n".join(map(json.dumps, lines)).encode()


def _tar(content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("job/file")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _zip(content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("job/file", content)
    return out.getvalue()


def _zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


SEEDS = (
    _timeline(),
    _recorder(),
    "\n".join(job()).encode(),
    b"[1,0]<stdout>:Total img/sec on 2 GPU(s): 20.0 +-0.5\nProcess 1 exit with status code 7.\n",
    b'{"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [{"ph": "X", "tid": 1}]}',
    b"1:872 8:6679\n",
    "Zeit\tnp\tsamples/s\n1\t2\t3\n".encode("utf-16"),
    b"",
)
PACKS: tuple[Pack, ...] = (bytes, gzip.compress, _zstd, _tar, _zip)
NAMES = st.binary(min_size=1, max_size=40).filter(
    lambda name: not set(name) & set(b"/\0*?[") and name not in (b".", b"..", b"-")
)


@pytest.mark.heavy
@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.sampled_from(SEEDS),
    packs=st.lists(st.sampled_from(PACKS), max_size=2),
    inserted=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=20)), max_size=4),
    removed=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 200)), max_size=3),
    name=NAMES,
)
def test_any_bytes_under_any_name(
    tmp_path_factory: pytest.TempPathFactory,
    seed: bytes,
    packs: list[Pack],
    inserted: list[tuple[float, bytes]],
    removed: list[tuple[float, int]],
    name: bytes,
) -> None:
    content = seed
    for pack in packs:
        content = pack(content)
    for place, piece in inserted:
        at = int(place * len(content))
        content = content[:at] + piece + content[at:]
    for place, length in removed:
        at = int(place * len(content))
        content = content[:at] + content[at + length :]
    path = tmp_path_factory.mktemp("any") / os.fsdecode(name)
    path.write_bytes(content)
    try:
        run = load_run(path)
    except HvdprofError as error:
        (error.message + error.hint).encode("utf-8")
        return
    for frame in all_tables(run).values():
        pa.Table.from_pandas(frame)
    "\n".join(texts(run.notes)).encode("utf-8")


@pytest.mark.heavy
def test_a_folder_of_files_that_no_reader_knows_costs_little(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}.txt").write_text(f"some words {number}\n")
    with pytest.raises(HvdprofError, match="None of the 300 files"):
        load_run(tmp_path)
    began = time.process_time()
    with pytest.raises(HvdprofError):
        load_run(tmp_path)
    assert time.process_time() - began < 300 * 0.005
