import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.dashboards.view import View

KEYS = st.from_regex(r"[a-z_]{1,20}", fullmatch=True)


@pytest.mark.slow
@given(st.dictionaries(KEYS, st.text(min_size=1, max_size=50), max_size=5))
def test_a_view_and_its_address_say_the_same(values):
    values = {key: value for key, value in values.items() if value.isprintable()}
    view = View("/timeline", values)
    assert View.of_address("/timeline", view.search) == view


@pytest.mark.heavy
@given(st.text())
def test_any_text_is_an_address(search):
    view = View.of_address(None, search)
    assert view.path == "/"
    assert all(len(value) <= 400 for value in view.values.values())


@pytest.mark.parametrize(
    ("value", "whole"),
    [("4", 4), ("-4", -4), ("4.0", None), ("", None), ("9" * 19, None), ("٤", None)],
)
def test_a_whole_number_is_one_of_digits(value, whole):
    assert View("/", {"np": value}).np == whole


def test_another_run_starts_afresh():
    view = View("/timeline", {"run": "a", "np": "4", "step": "7"})
    assert view.changed(run="b").values == {"run": "b"}
    assert view.changed(run="a", step=None).values == {"run": "a", "np": "4"}
    # An address without a run is completed.
    assert View("/runs", {"np": "4"}).changed(run="b").values == {"np": "4", "run": "b"}


def test_another_page_keeps_the_run_and_the_cell():
    values = {"run": "a b", "toggles": "fp16", "np": "4", "step": "7", "model": "mnist"}
    there = View("/timeline", values).at("/ranks")
    assert there.href == "/ranks?run=a+b&np=4&model=mnist&toggles=fp16"


def test_another_page_keeps_the_launch():
    view = View("/ranks", {"run": "a", "launch": "p|s", "step": "7"})

    assert view.at("/ranks").values == {"run": "a", "launch": "p|s"}
    assert View("/timeline", {"pass": "p", "from": "3"}).at("/ranks").values == {"pass": "p"}


def test_the_choice_of_another_cell_pass_or_launch_replaces_the_launch():
    view = View("/ranks", {"run": "a", "np": "2", "launch": "p|s"})

    assert view.changed(np=4).values == {"run": "a", "np": "4"}
    assert view.changed(**{"pass": "q"}).values == {"run": "a", "np": "2", "pass": "q"}
    assert view.changed(launch="p|t").values == {"run": "a", "np": "2", "launch": "p|t"}
    assert view.changed(step=3).text("launch") == "p|s"
