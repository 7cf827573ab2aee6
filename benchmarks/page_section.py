"""Puts measured tables into a page of the documentation."""

from pathlib import Path

from hvdprof.rundir.written_file import write_whole


def write_section(page: Path, name: str, text: str) -> None:
    """Replace what stands between ``<!-- NAME begin -->`` and ``<!-- NAME end -->``.

    Raises:
        ValueError: The page has no such place.
    """
    begin, end = f"<!-- {name} begin -->", f"<!-- {name} end -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no place for {name}")
    write_whole(page, f"{before}{begin}\n\n{text}\n\n{end}{after}")
