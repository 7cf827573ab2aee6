from pathlib import Path

import pytest

from hvdprof.cli.measuring.written_output import folder_or_file, show_or_write
from hvdprof.errors import StorageError, UsageError


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


@pytest.mark.parametrize(
    ("output", "runs", "folder", "file"),
    [
        (None, None, None, None),
        (None, "runs/t", "runs/t", None),
        ("out", None, Path("out"), None),
        ("out.v2", None, Path("out.v2"), None),
        ("out.json", None, None, Path("out.json")),
        ("out.json.gz", "runs/t", "runs/t", Path("out.json.gz")),
    ],
)
def test_where_something_is_measured_the_output_is_its_folder(output, runs, folder, file):
    given = None if output is None else Path(output)
    assert folder_or_file(given, [".json", ".md"], runs) == (folder, file)


def test_two_folders_are_refused():
    with pytest.raises(UsageError, match="both name the folder"):
        folder_or_file(Path("out"), [".json"], "runs/t")
