import pytest

from tests.builders.analysis import analysis_of, sweep
from tests.builders.run_directory import PassSpec, SegmentSpec


@pytest.mark.heavy
def test_the_product_of_the_factors_is_the_efficiency(tmp_path):
    passes = sweep({0: 10.0, 1: 10.4, 2: 12.5}, blocked_ms={2: 2.0})
    analysis = analysis_of(tmp_path / "run", passes)

    factors = analysis.table("pop")
    assert factors["identity_error"].abs().max() < 1e-12
    merged = factors.merge(
        analysis.scaling[analysis.scaling["engine"] == "horovod"], on=["model", "np"]
    )
    assert merged["efficiency_x"].tolist() == pytest.approx(merged["efficiency_y"].tolist())


@pytest.mark.heavy
def test_steps_without_phases_have_no_factors(tmp_path):
    passes = [
        PassSpec(repeat=repeat, size=size, segments=[SegmentSpec(parts_ms={"outside": 10.0})])
        for size in (1, 2)
        for repeat in (1, 2)
    ]
    analysis = analysis_of(tmp_path / "run", passes)

    assert len(analysis.scaling) == 2
    assert analysis.table("pop").empty
