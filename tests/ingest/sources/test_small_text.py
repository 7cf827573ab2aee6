import os
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.sources import small_text as module
from hvdprof.ingest.sources.small_text import small_text


def test_a_file_and_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf1:872 8:6679\xff\n")
    assert small_text(tmp_path / "a") == "1:872 8:6679\ufffd\n"
    reading, writing = os.pipe()
    os.write(writing, b"1:872\n")
    os.close(writing)
    assert small_text(Path(f"/dev/fd/{reading}")) == "1:872\n"
    os.close(reading)


def test_devices_pipes_with_names_and_giants_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"x" * 1001)
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    cases = {"/dev/zero": "a device", str(tmp_path / "pipe"): "a named pipe"}
    cases |= {
        str(tmp_path / "long"): r"more than 1\.00 kB",
        str(tmp_path / "lon"): "lon does not exist",
    }
    for name, said in cases.items():
        with pytest.raises(UnreadableInputError, match=said):
            small_text(Path(name))


def test_a_file_that_is_missing_names_what_lies_near(tmp_path: Path) -> None:
    (tmp_path / "speeds.csv").write_text("1:872\n")
    with pytest.raises(UnreadableInputError) as error:
        small_text(tmp_path / "speed.csv")
    assert error.value.hint == f"Similar: {tmp_path / 'speeds.csv'}"
