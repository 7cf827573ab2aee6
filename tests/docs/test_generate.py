import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs import generate
from hvdprof.model.table_catalogue import TABLES
from hvdprof.rundir.recording.recorder_codec import declared_kinds


def test_the_page_of_tables_is_up_to_date() -> None:
    assert (generate.DOCS / "reference" / "tables.md").read_text(
        encoding="utf-8"
    ) == generate.tables_page()


def test_every_column_of_every_table_is_on_the_page() -> None:
    page = generate.tables_page()
    for table in TABLES:
        section = page.split(f"\n## {table.name}\n", 1)[1].split("\n## ", 1)[0]
        for column in table.columns:
            assert f"| `{column.name}` | {column.dtype} |" in section


@pytest.mark.heavy
def test_check_names_the_pages_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "DOCS", tmp_path)
    monkeypatch.setattr("sys.argv", ["generate.py"])
    (tmp_path / "reference").mkdir()
    assert generate.main() == 0
    monkeypatch.setattr("sys.argv", ["generate.py", "--check"])
    assert generate.main() == 0
    (tmp_path / "reference" / "tables.md").write_text("old", encoding="utf-8")
    assert generate.main() == 1
    assert "docs/reference/tables.md is out of date" in capsys.readouterr().err


@pytest.mark.heavy
def test_help_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = generate.commands_page()
    monkeypatch.setenv("COLUMNS", "40")
    assert generate.commands_page() == wide
    assert "## hvdprof\n" in wide


def test_the_page_of_recorder_lines_is_up_to_date() -> None:
    page = (generate.DOCS / "reference" / "recorder_lines.md").read_text(encoding="utf-8")
    assert page == generate.recorder_page()


def test_every_key_of_every_recorder_line_is_on_the_page() -> None:
    page = generate.recorder_page()
    for kind in declared_kinds():
        section = page.split(f"\n## {kind.name}\n", 1)[1].split("\n## ", 1)[0]
        for key in kind.keys:
            assert f"| `{key.name}`" in section
            assert f"| {key.unit or '-'} | {key.doc} |" in section


def test_it_imports_the_checkout_that_it_is_in(tmp_path: Path) -> None:
    """Another installed version must not end up in the pages."""
    (tmp_path / "hvdprof.py").write_text("raise SystemExit('another hvdprof was imported')")
    shown = subprocess.run(
        [sys.executable, generate.DOCS / "generate.py", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    assert "--check" in shown.stdout


def test_the_schema_of_the_json_is_up_to_date() -> None:
    written = generate.DOCS / "reference" / "analysis.schema.json"
    assert written.read_text(encoding="utf-8") == generate.schema_file()
