"""What tests of several parts of the recorder share."""

import pytest

from hvdprof.collect.steps import step_writer


@pytest.fixture
def steps_written_singly(monkeypatch):
    """Each step is in the file as soon as it has ended, however short it is."""
    monkeypatch.setattr(step_writer, "STEPS_AT_ONCE", 1)
