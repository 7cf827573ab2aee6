import itertools

from hvdprof.figures.style.palette import LINE_COLOURS, PART_COLOURS, translucent
from hvdprof.model.step_parts import PARTS


def test_every_part_of_a_step_and_an_evaluation_have_a_colour_each():
    assert set(PART_COLOURS) == {*PARTS, "evaluation"}
    assert len(set(PART_COLOURS.values())) == len(PARTS) + 1


def test_colours_differ_in_lightness_or_hue_by_more_than_a_shade():
    def channels(colour):
        return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]

    for colours in (PART_COLOURS.values(), LINE_COLOURS):
        for one, other in itertools.combinations(colours, 2):
            apart = max(abs(a - b) for a, b in zip(channels(one), channels(other), strict=True))
            assert apart > 40, (one, other)


def test_translucent():
    assert translucent("#0072b2", 0.5) == "rgba(0,114,178,0.5)"
