import pytest

from hvdprof.errors import UsageError
from hvdprof.figures.catalogue import DETAIL_FIGURES, FIGURES, figure_kind
from tests.builders.analysis import analysis_of, sweep

pytestmark = pytest.mark.slow

ALL = (*FIGURES, *DETAIL_FIGURES)


def test_names_are_unique_and_found():
    assert len({kind.name for kind in ALL}) == len(ALL)
    assert all(figure_kind(kind.name) is kind for kind in ALL)


def test_a_name_that_is_not_there_lists_those_that_are():
    with pytest.raises(UsageError) as error:
        figure_kind("pie")
    assert all(kind.name in error.value.hint for kind in ALL)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_what_has_data_is_drawn_and_what_has_none_is_a_sentence(tmp_path, kind):
    analysis = analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 12.5}, blocked_ms={2: 2.0}))
    figure = kind.draw(analysis)
    assert kind.has_data(analysis) == bool(figure.data)
    assert bool(figure.data) != bool(
        [note for note in figure.layout.annotations if note.showarrow is False and note.x == 0.5]
    )


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_a_run_without_results_is_a_sentence(tmp_path, kind):
    figure = kind.draw(analysis_of(tmp_path / "run", []))
    assert not figure.data
    assert figure.layout.annotations[0].text
