import os
from datetime import UTC, datetime, timedelta

import pytest

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.dashboards.components.diagnosis_cards import line_card
from hvdprof.report.sections.code_lines import source_line
from tests.analyze.causes.test_line_causes import planted_in, slow_rank
from tests.builders.sampled_lines import with_samples
from tests.builders.served_dashboard import shown_text

BEGUN = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def script(tmp_path):
    """A script that is older than the run."""
    path = tmp_path / "train.py"
    path.write_text("import time\n\n    time.sleep(1)  # <b>\n", encoding="utf-8")
    os.utime(path, (BEGUN.timestamp() - 60,) * 2)
    return path


def test_the_source_of_an_unchanged_file_is_shown(script):
    assert source_line(str(script), 3, BEGUN) == "time.sleep(1)  # <b>"


def test_other_files_and_lines_are_not_read(script, tmp_path):
    assert source_line(str(script), 3, BEGUN - timedelta(minutes=2)) == ""
    assert source_line(str(script), 30, BEGUN) == ""
    assert source_line(str(script), 0, BEGUN) == ""
    assert source_line(str(tmp_path / "gone.py"), 1, BEGUN) == ""
    assert source_line("train.py", 1, BEGUN) == ""
    assert source_line("In [3]", 1, BEGUN) == ""
    secret = tmp_path / "key"
    secret.write_text("secret\n", encoding="utf-8")
    os.utime(secret, (0, 0))
    assert source_line(str(secret), 1, BEGUN) == ""
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    os.utime(pipe, (0, 0))
    assert source_line(str(pipe), 1, BEGUN) == ""


def test_the_card_has_the_cause_the_line_and_its_source(script, tmp_path):
    run = slow_rank(tmp_path / "run", 30.0)
    line = (str(script), 3, "wait")
    analysis = analyze_run(with_samples(run, line, planted_in("data", 30.0)))
    card = line_card(analysis)
    assert card is not None
    text = shown_text(card)
    assert "straggler: rank 1, data phase: train.py:3 (wait), " in text
    assert "against: other ranks" in text
    assert "time.sleep(1)  # <b>" in text


def test_without_samples_there_is_no_card(tmp_path):
    assert line_card(analyze_run(slow_rank(tmp_path / "run", 0.0))) is None
