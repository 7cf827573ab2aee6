"""The picture of the Grafana board is what a real Prometheus answers to the board's queries."""

import json
import shutil

import pytest

from docs.board_picture import BOARD, PICTURE, picture
from docs.watch_picture import job_looks

TITLES = [panel["title"] for panel in json.loads(BOARD.read_text(encoding="utf-8"))["panels"]]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no Prometheus (Debian package)")
def test_the_picture_is_up_to_date(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    # After a change: TZ=UTC .venv/bin/python -m docs.board_picture
    assert picture(job_looks(tmp_path / "resnet"), tmp_path) == PICTURE.read_text(encoding="utf-8")


def test_the_picture_shows_each_panel_with_data_and_needs_nothing_from_elsewhere():
    shown = PICTURE.read_text(encoding="utf-8")
    assert all(f">{title}</text>" in shown for title in TITLES)
    assert "no data" not in shown
    assert "rank 5 on node1, data" in shown
    assert shown.count("http") == 1
