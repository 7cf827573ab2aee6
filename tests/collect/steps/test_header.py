import sys
from types import SimpleNamespace

import pytest

from hvdprof.collect.identity import Identity
from hvdprof.collect.steps.header import header_line

ALONE = Identity(0, 1, 0, 1)


@pytest.mark.parametrize(("setting", "threads"), [("3", 3), ("0", None), ("", None), ("all", None)])
def test_tensorflow_and_its_threads_are_named_where_it_is_imported(monkeypatch, setting, threads):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(__version__="2.15.1"))
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", setting)

    line = header_line(ALONE, "cpu")

    assert line["versions"]["tensorflow"] == "2.15.1"
    assert line["num_threads"] == threads


def test_a_tensorflow_that_is_only_installed_is_not_asked(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "3")

    line = header_line(ALONE, "cpu")

    assert "tensorflow" not in line["versions"]
    assert line["num_threads"] is None
