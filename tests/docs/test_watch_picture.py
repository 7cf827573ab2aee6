"""The picture of the screen is what the watcher shows now."""

import time
from pathlib import Path

import pytest

from docs.watch_picture import PICTURE, job_looks, picture


def test_the_picture_is_what_the_screen_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    shown = picture(job_looks(tmp_path / "resnet"))
    monkeypatch.undo()
    time.tzset()
    # After a change: TZ=UTC .venv/bin/python -m docs.watch_picture
    assert shown == PICTURE.read_text(encoding="utf-8")
    assert "Rank&#160;5&#160;on&#160;node1" in shown
