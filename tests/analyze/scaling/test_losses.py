from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hvdprof.model.causes import PARTS, RECORDED_PARTS
from tests.builders.analysis import analysis_of, table_text
from tests.builders.examples import examples
from tests.builders.run_directory import PassSpec, SegmentSpec

pytestmark = pytest.mark.slow

BASE = {"data": 1, "forward": 3, "backward": 5, "blocked": 0, "optimizer": 1, "outside": 0}
SLOW = {"data": 2, "forward": 3, "backward": 6, "blocked": 8, "optimizer": 0.5, "outside": 0.5}


def test_parts_of_the_loss(tmp_path: Path) -> None:
    passes = [
        PassSpec(size=1, segments=[SegmentSpec(engine="torch", parts_ms=BASE)]),
        PassSpec(size=2, segments=[SegmentSpec(parts_ms=SLOW)]),
    ]
    analysis = analysis_of(tmp_path, passes)
    expected = """\
2 data 1000000.000 0.050
2 forward 0.000 0.000
2 backward 1000000.000 0.050
2 blocked 8000000.000 0.400
2 before_update 0.000 0.000
2 optimizer -500000.000 -0.025
2 outside 500000.000 0.025
2 residual 0.000 0.000"""
    losses = analysis.losses
    # Adding 0.0 takes the sign from a rounded zero.
    shown = losses.assign(
        lost_ns=losses["lost_ns"].round() + 0.0, lost_share=losses["lost_share"].round(6) + 0.0
    )
    assert table_text(shown, ("np", "part", "lost_ns", "lost_share")) == expected


def test_a_rank_that_waits_between_steps_shows_in_the_residual(tmp_path: Path) -> None:
    uneven = {"forward": [[8.0], [12.0]]}
    passes = [
        PassSpec(size=1, segments=[SegmentSpec(parts_ms={"forward": 8.0})]),
        PassSpec(size=2, segments=[SegmentSpec(parts_ms=uneven)]),
    ]
    losses = analysis_of(tmp_path, passes).losses.set_index("part")["lost_ns"]
    # The job's step takes 12 ms, the mean step of its ranks 10 ms.
    assert losses["forward"] == pytest.approx(2e6)
    assert losses["residual"] == pytest.approx(2e6, rel=1e-3)


def test_strong_scaling_compares_with_the_same_number_of_samples(tmp_path: Path) -> None:
    half = {part: value / 2 for part, value in BASE.items()} | {"blocked": 2.0}
    passes = [
        PassSpec(size=1, segments=[SegmentSpec(batch_size=64, parts_ms=BASE)]),
        PassSpec(size=2, segments=[SegmentSpec(batch_size=32, parts_ms=half)]),
    ]
    losses = analysis_of(tmp_path, passes).losses.set_index("part")["lost_ns"]
    assert losses["blocked"] == pytest.approx(2e6)
    assert losses.drop("blocked").abs().max() < 10


def test_a_part_that_one_size_did_not_see_lies_in_the_rest_of_both(tmp_path: Path) -> None:
    passes = [
        PassSpec(size=1, segments=[SegmentSpec(parts_ms=BASE | {"blocked": 2})]),
        PassSpec(size=2, segments=[SegmentSpec(parts_ms=SLOW, seen_inside=False)]),
    ]
    analysis = analysis_of(tmp_path, passes)
    losses = analysis.losses.set_index("part")["lost_ns"]
    assert "blocked" not in losses.index
    # 20 ms of which nothing was seen, by the 2 ms that the baseline was blocked.
    assert losses["outside"] == pytest.approx(18e6)
    assert losses["forward"] == pytest.approx(-3e6)
    efficiency = analysis.scaling["efficiency"].iloc[1]
    assert analysis.losses["lost_share"].sum() == pytest.approx(1 - efficiency)


_lengths = st.fixed_dictionaries({part: st.floats(0.1, 50) for part in RECORDED_PARTS})


@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    base=_lengths,
    cells=st.lists(_lengths, min_size=1, max_size=3),
    batch_size=st.integers(1, 64),
)
def test_the_parts_sum_to_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    base: dict[str, float],
    cells: list[dict[str, float]],
    batch_size: int,
) -> None:
    passes = [PassSpec(size=1, segments=[SegmentSpec(parts_ms=base, num_steps=5)])]
    for size, parts in enumerate(cells, start=2):
        segment = SegmentSpec(parts_ms=parts, num_steps=5, batch_size=batch_size)
        passes += [PassSpec(size=size, repeat=repeat, segments=[segment]) for repeat in (1, 2)]
    analysis = analysis_of(tmp_path_factory.mktemp("run"), passes)
    lost = analysis.losses.groupby("np")["lost_share"].sum()
    efficiency = analysis.scaling.set_index("np")["efficiency"]
    assert list(lost.index) == list(range(2, 2 + len(cells)))
    for np, share in lost.items():
        assert share == pytest.approx(1 - efficiency[np], abs=1e-9)
    assert list(analysis.losses["part"].unique()) == list(PARTS)
