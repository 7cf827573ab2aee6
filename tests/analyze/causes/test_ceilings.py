from typing import Any

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.causes.ceilings import MOST_RANKS, ceilings
from hvdprof.analyze.steps.measured_launches import LaunchFacts
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.causes import EVEN_RANKS, IDEAL_NETWORK, NO_DATA, NO_JITTER, ON_TIME
from tests.builders.analysis import analysis_of, sweep
from tests.builders.cell_times import MS, cell_time
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


LAUNCHES = (("p", "0"), ("p", "1"))


def _work(*forward_ms: list[float]) -> StepWork:
    """Steps of ranks with 10 ms of data, this forward, 5 ms of transfer and 5 ms of optimizer."""
    forward = MS * np.array(forward_ms, dtype=float)
    data = np.full_like(forward, 10 * MS)
    tail, after = (np.full_like(forward, 5 * MS) for _ in range(2))
    before = data + forward
    length = before.max(axis=1) + 10 * MS
    begin = np.broadcast_to((np.cumsum(length) - length)[:, None], forward.shape)
    num_steps, num_ranks = forward.shape
    zero = np.zeros_like(forward)
    return StepWork(
        ranks=np.arange(num_ranks),
        steps=np.arange(num_steps),
        follows=np.arange(num_steps) > 0,
        begin=begin,
        own_before_sync=before,
        arrived=begin + before,
        transfer=tail,
        own_after_release=after,
        parts={
            "data": data,
            "forward": forward,
            "backward": zero,
            "before_update": zero,
            "optimizer": after,
            "outside": zero,
        },
        clock_error=zero,
        behind_release=zero,
        evaluates=np.zeros(zero.shape, dtype=bool),
    )


def _ceilings(*works: StepWork, step_ms: float = 60.0, **cell: Any) -> pd.DataFrame:
    """CEILINGS of a cell with these launches; plain torch takes 30 ms per step."""
    keys = LAUNCHES[: len(works)]
    base = cell_time(30.0, np=1, engine="torch", launches=(("torch", "s"),))
    size = len(works[0].ranks) if works else 2
    time = cell_time(step_ms, launches=keys, **({"np": size} | cell))
    facts = {
        key: LaunchFacts(np.empty(0, np.int64), {}, 8.0, (8.0, 8.0))
        for key in (*keys, ("torch", "s"))
    }
    return ceilings({base.cell: base, time.cell: time}, dict(zip(keys, works, strict=True)), facts)


def _saved_ms(found: pd.DataFrame) -> dict[tuple[str, int | None], float]:
    ranks = [None if pd.isna(rank) else int(rank) for rank in found["rank"]]
    saved = (found["saved_ns"] / MS).tolist()
    return dict(zip(zip(found["remedy"], ranks, strict=True), saved, strict=True))


def test_a_persistent_straggler() -> None:
    # Steps of 10 + 40 + 5 + 5 = 60 ms, for the sake of rank 1.
    saved = _saved_ms(_ceilings(_work([20, 40], [20, 40], [20, 40])))

    assert saved == {
        (EVEN_RANKS, None): pytest.approx(10),  # 30 ms of forward on each rank
        (NO_JITTER, None): pytest.approx(0, abs=1e-6),
        (IDEAL_NETWORK, None): pytest.approx(5),
        (NO_DATA, None): pytest.approx(10),
        (ON_TIME, 1): pytest.approx(20),
        (ON_TIME, 0): pytest.approx(0, abs=1e-6),
    }


def test_rotating_stragglers() -> None:
    saved = _saved_ms(_ceilings(_work([20, 40], [40, 20], [20, 40], [40, 20])))

    assert saved[NO_JITTER, None] == pytest.approx(10)
    assert saved[EVEN_RANKS, None] == pytest.approx(10)
    # Either rank on time shortens every other step by 20 ms.
    assert saved[ON_TIME, 0] == pytest.approx(10)
    assert saved[ON_TIME, 1] == pytest.approx(10)


def test_efficiency_that_a_remedy_would_give() -> None:
    row = _ceilings(_work([20, 40])).set_index("remedy").loc[IDEAL_NETWORK]

    # 30 ms on one rank, 60 ms measured, 55 ms with the remedy.
    assert row["step_time_ns"] == pytest.approx(55 * MS)
    assert row["saved_share"] == pytest.approx(1 / 12)
    assert row["efficiency"] == pytest.approx(30 / 55)
    assert row["efficiency_gain"] == pytest.approx(30 / 55 - 0.5)


def test_the_interval_is_that_of_the_launches() -> None:
    found = _ceilings(_work([20, 40]), _work([20, 30])).set_index("remedy").loc[NO_DATA]

    # Shares 10 / 60 and 10 / 50, half of their distance as error; t = 12.706 for 1 degree.
    share = (1 / 6 + 1 / 5) / 2
    reach = 12.706 * (1 / 5 - 1 / 6) / 2
    assert found["saved_share"] == pytest.approx(share)
    assert found["saved_ns"] == pytest.approx(60 * MS * share)
    assert found["saved_low_ns"] == pytest.approx(60 * MS * (share - reach), rel=1e-3)
    assert found["saved_high_ns"] == pytest.approx(60 * MS * (share + reach), rel=1e-3)


def test_one_launch_has_no_interval() -> None:
    assert _ceilings(_work([20, 40]))["saved_low_ns"].isna().all()


def test_only_the_slowest_ranks_are_replayed_on_time() -> None:
    found = _ceilings(_work([float(20 + rank) for rank in range(MOST_RANKS + 3)]))

    ranks = found.loc[found["remedy"] == ON_TIME, "rank"].tolist()
    assert ranks == list(range(MOST_RANKS + 2, 2, -1))


def test_cells_of_one_rank_or_without_recorded_steps_or_of_traces_have_none() -> None:
    assert _ceilings().empty
    assert _ceilings(_work([20]), np=1).empty
    assert _ceilings(_work([20, 40]), mode="trace").empty
