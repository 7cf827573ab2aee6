import pytest

from hvdprof.figures.losses_figure import losses_figure
from hvdprof.figures.style.palette import PART_COLOURS
from hvdprof.model.tables.scaling_tables import LOSSES, SCALING
from tests.builders.finished_analysis import cell, loss_rows, two_toggles, typical_losses


def drawn(losses, scaling=()):
    scaling = SCALING.frame(list(scaling)) if scaling else SCALING.empty()
    return losses_figure(LOSSES.frame(list(losses)), scaling)


@pytest.mark.heavy
def test_a_bar_a_cell_and_a_colour_a_part():
    figure = drawn(typical_losses(), two_toggles())
    by_colour = {bar.marker.color: bar for bar in figure.data}
    blocked = by_colour[PART_COLOURS["blocked"]]
    assert blocked.name == "blocked"
    assert list(blocked.y) == [
        "resnet18 np=2<br>none average",
        "resnet18 np=2<br>none adasum",
    ]
    assert list(blocked.x) == pytest.approx([3.5 / 31.0, 18.6 / 45.6])
    assert set(by_colour) == set(PART_COLOURS.values())


def test_the_parts_of_a_bar_sum_to_its_loss():
    losses = LOSSES.frame(typical_losses())
    figure = drawn(typical_losses())
    of_plain = sum(bar.x[0] for bar in figure.data)
    assert of_plain == pytest.approx(
        losses.loc[losses["reduction"] == "average", "lost_share"].sum()
    )


def test_an_oversubscribed_cell_is_pale_and_named():
    figure = drawn(loss_rows(cell(np=4), blocked=9.0), [cell(np=4, oversubscribed=True)])
    blocked = next(bar for bar in figure.data if bar.name == "blocked")
    assert blocked.y[0] == "resnet18 np=4<br>none average<br><i>oversubscribed</i>"
    assert blocked.marker.opacity == (0.4,)


def test_hover_says_milliseconds_and_percent():
    figure = drawn(loss_rows(cell(), blocked=3.5))
    blocked = next(bar for bar in figure.data if bar.name == "blocked")
    assert blocked.hovertext[0] == ("<b>blocked</b><br>3.50 ms per step, 11.3 % of the step")


def test_nothing_lost_is_said():
    assert "No cell has a baseline" in drawn([]).layout.annotations[0].text


def test_a_name_is_never_html_and_leaves_room_for_its_bar():
    figure = drawn(loss_rows(cell(model="<i>" + "x" * 180), blocked=3.5))
    (label,) = {bar.y[0] for bar in figure.data if len(bar.y)}
    assert label.startswith("&lt;i&gt;xxx")
    assert len(label) < 70
