import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.analyze.scaling.known_cells import LARGEST_NOISE, known_cells
from hvdprof.analyze.stats.uncertainty import CONFIDENCE
from hvdprof.api import load_run
from hvdprof.ingest.load import load_throughput
from hvdprof.rundir.stopping import KnownCell
from tests.builders.analysis import analysis_of, sweep
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

TRACE = PassSpec(
    size=4, mode="trace", segments=[SegmentSpec(model="mnist", parts_ms=typical_parts(50.0))]
)


def _known(folder: Path, passes: list[PassSpec], confidence: float = 0.99) -> list[KnownCell]:
    return known_cells(load_throughput(write_run(folder, passes)), confidence)


@pytest.mark.heavy
def test_the_half_widths_are_those_of_the_report(tmp_path: Path) -> None:
    passes = [
        *sweep({0: 10, 1: 10.2, 2: 11, 4: 14}, model="mnist"),
        *sweep({0: 10, 2: 15}, model="vgg16"),
        TRACE,
    ]
    cells = _known(tmp_path / "looked", passes)
    assert [(one.model, one.size, one.engine) for one in cells] == [
        ("mnist", 4, "horovod"),
        ("vgg16", 2, "horovod"),
    ]
    assert {(one.baseline_size, one.baseline_engine) for one in cells} == {(1, "torch")}
    scaling = analysis_of(tmp_path / "reported", passes).scaling
    for one in cells:
        row = scaling[(scaling["model"] == one.model) & (scaling["np"] == one.size)].iloc[0]
        reported = (row["efficiency_high"] - row["efficiency_low"]) / 2
        assert one.half_width == pytest.approx(reported)
        assert one.stopping_half_width is not None
        assert one.stopping_half_width > 1.2 * reported


@pytest.mark.heavy
def test_launches_that_took_turns_are_paired_as_in_the_report(tmp_path: Path) -> None:
    folder = write_run(tmp_path, sweep({0: 10, 2: 15}, model="vgg16"))
    apart = known_cells(load_throughput(folder), CONFIDENCE)
    turn: dict[str, object] = {"round": 1, "first_step": 0, "num_steps": 10_000}
    turn |= {"dur_ns": 1_000_000_000, "other_cores": 0.0, "steal_share": 0.0}
    for record in json.loads((folder / "manifest.json").read_text())["passes"]:
        (segment,) = record["segments"]
        line = json.dumps(turn | {"segment": segment["segment"]["id"]})
        (folder / "passes" / record["id"] / "turns.jsonl").write_text(line + "\n")
    (cell,) = known_cells(load_throughput(folder), CONFIDENCE)
    scaling = analyze_run(load_run(folder)).scaling
    row = scaling[(scaling["engine"] == "horovod") & (scaling["np"] == 2)].iloc[0]
    assert cell.half_width == pytest.approx((row["efficiency_high"] - row["efficiency_low"]) / 2)
    # All launches of a repeat are slower by the same factor, which pairing takes out.
    assert apart[0].half_width is not None and cell.half_width is not None
    assert cell.half_width < 0.5 * apart[0].half_width


@pytest.mark.heavy
def test_at_the_reported_confidence_both_widths_are_the_same(tmp_path: Path) -> None:
    (cell,) = _known(tmp_path, sweep({0: 10, 2: 12}), CONFIDENCE)
    assert cell.stopping_half_width == cell.half_width


@pytest.mark.heavy
def test_oversubscribed_sizes_and_toggles_do_not_count(tmp_path: Path) -> None:
    passes = [
        *sweep({0: 10, 2: 11}),
        *sweep({2: 30}, compression="fp16"),
        PassSpec(size=8, oversubscribed=True, segments=[SegmentSpec()]),
    ]
    (cell,) = _known(tmp_path, passes)
    assert cell.size == 2
    assert cell.half_width is not None and cell.half_width < 0.1


@pytest.mark.heavy
def test_oversubscribed_ranks_alone_say_nothing(tmp_path: Path) -> None:
    passes = [
        *sweep({0: 10}),
        PassSpec(size=8, oversubscribed=True, segments=[SegmentSpec()]),
    ]
    assert _known(tmp_path, passes) == []


@pytest.mark.heavy
def test_one_size_alone_is_judged_by_its_throughput(tmp_path: Path) -> None:
    (cell,) = _known(tmp_path / "looked", sweep({2: 10}))
    assert (cell.size, cell.baseline_size, cell.baseline_engine) == (2, 2, "horovod")
    row = analysis_of(tmp_path / "reported", sweep({2: 10})).scaling.iloc[0]
    reported = row["samples_per_s_high"] - row["samples_per_s_low"]
    assert cell.half_width == pytest.approx(reported / 2 / row["samples_per_s"])


@pytest.mark.heavy
def test_launches_that_differ_more_than_their_steps_explain(tmp_path: Path) -> None:
    # Steps of the builder do not vary within a launch: all noise is between launches.
    (cell,) = _known(tmp_path, sweep({0: 10, 2: 12}))
    assert cell.step_noise is None or cell.step_noise < 0.01


@pytest.mark.heavy
def test_steps_that_explain_how_launches_differ(tmp_path: Path) -> None:
    noisy = [
        PassSpec(
            size=size,
            repeat=repeat,
            segments=[
                SegmentSpec(
                    engine="horovod" if size == 2 else "torch",
                    parts_ms=typical_parts(10 + 4 * _noise(100 * size + repeat)),
                )
            ],
        )
        for repeat in (1, 2, 3)
        for size in (1, 2)
    ]
    (cell,) = _known(tmp_path, noisy)
    assert cell.step_noise is not None
    assert 0.3 < cell.step_noise <= LARGEST_NOISE


def _noise(seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=62).clip(-2, 2)
