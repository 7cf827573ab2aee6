from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.attached import NetRecording
from hvdprof.rundir.layout import RunPaths
from tests.builders.net_recording import net_recording


def test_what_is_written_is_read(tmp_path: Path) -> None:
    recording = net_recording()
    recording.write(tmp_path)
    assert NetRecording.read(tmp_path) == recording


def test_a_run_without_a_measurement(tmp_path: Path) -> None:
    assert NetRecording.read(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged"),
        ("{", "is damaged"),
        ("[1]\n", "is damaged"),
        ('{"hosts": []}\n', "is damaged"),
        ('{"schema_version": 1, "hosts": []}\n', "is damaged"),
        ('{"schema_version": 99}\n', "reads up to 1"),
    ],
)
def test_what_cannot_be_read_is_reported(tmp_path: Path, text: str, message: str) -> None:
    RunPaths(tmp_path).net.write_text(text)
    with pytest.raises(UnreadableInputError, match=message):
        NetRecording.read(tmp_path)
