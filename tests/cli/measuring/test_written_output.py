from pathlib import Path

import pytest

from hvdprof.cli.measuring.written_output import show_or_write
from hvdprof.errors import StorageError


def test_a_result_without_a_file_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show_or_write(lambda stream: stream.write("56 %\n"), None, overwrite=False)

    assert capsys.readouterr() == ("56 %\n", "")


def test_a_file_is_written_once_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result.txt"
    show_or_write(lambda stream: stream.write("56 %\n"), file, overwrite=False)

    assert file.read_text() == "56 %\n"
    assert capsys.readouterr() == ("", f"Wrote {file}\n")
    with pytest.raises(StorageError):
        show_or_write(lambda stream: stream.write("57 %\n"), file, overwrite=False)
    assert file.read_text() == "56 %\n"
