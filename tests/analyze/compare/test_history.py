from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.compare.comparison import ComparedSide
from hvdprof.analyze.compare.history import change_points, history
from hvdprof.analyze.compare.sides import SideCell
from hvdprof.analyze.stats.uncertainty import Spread
from hvdprof.errors import UnreadableInputError
from hvdprof.model.results.comparison import EFFICIENCY, STEP_TIME, THROUGHPUT, change_at
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.rundir.manifest import Manifest

KEY = ("resnet18", 2, "horovod", "none", "average")


def run(number, step_ms, key=KEY):
    manifest = Manifest.of_files(f"r{number}")
    manifest.created_at = f"2026-11-{number + 1:02d}T00:00:00+00:00"
    manifest.git = {"commit": f"{number:040d}", "dirty": False}
    cell = SideCell(key, 3, {STEP_TIME.name: Spread(np.log(step_ms * 1e6), 1e-5, 2.0)})
    return ComparedSide(f"r{number}", f"r{number}", {key: cell}, WATERFALL.empty(), manifest)


def noisy(steps, seed=1, spread=0.01):
    random = np.random.default_rng(seed)
    return [
        run(number, step * float(np.exp(spread * random.normal())))
        for number, step in enumerate(steps)
    ]


def test_a_change_is_found_at_its_run_with_its_size():
    found = history(noisy([50.0] * 8 + [55.0] * 6), STEP_TIME, 0.02)
    (changed,) = found.rows[found.rows["is_change"]].to_dict("records")
    assert changed["run"] == "r8"
    assert changed["change"] == pytest.approx(0.1, abs=0.02)
    assert found.rows["segment"].tolist() == [0] * 8 + [1] * 6
    assert found.sentence.startswith("resnet18 on 2 ranks: step time +")
    assert "from r8 on (000000000)." in found.sentence


@pytest.mark.heavy
def test_two_changes_are_both_found():
    found = history(noisy([50.0] * 8 + [56.0] * 8 + [50.0] * 8), STEP_TIME, 0.02)
    assert found.rows.loc[found.rows["is_change"], "run"].tolist() == ["r8", "r16"]


def test_a_change_below_the_margin_does_not_matter():
    found = history(noisy([50.0] * 10 + [50.6] * 10, spread=0.002), STEP_TIME, 0.02)
    assert not found.rows["is_change"].any()
    assert found.sentence == "No change of the step time beyond the margin found in 20 runs."


def test_the_order_is_that_of_time_not_of_the_arguments():
    runs = noisy([50.0] * 6 + [55.0] * 6)
    shuffled = [runs[i] for i in np.random.default_rng(3).permutation(len(runs))]
    found = history(shuffled, STEP_TIME, 0.02)
    assert found.rows["run"].tolist() == [f"r{number}" for number in range(12)]


@pytest.mark.slow
def test_noise_alone_rarely_has_a_change_point():
    random = np.random.default_rng(5)
    alarms = sum(bool(change_points(random.normal(0, 0.02, 20))) for _ in range(100))
    assert alarms <= 5


def test_few_runs_have_no_change_point_and_it_is_said():
    found = history(noisy([50.0, 50.0, 50.4]), STEP_TIME, 0.02)
    assert found.sentence.startswith("No change of the step time beyond the margin found in 3")
    assert "Change points need 8 runs of a cell: 5 more." in found.sentence
    assert not found.rows["is_suspected"].any()


def efficiencies(*values, launches=1):
    sides = [run(number, 50.0) for number in range(len(values))]
    for side, (value, half) in zip(sides, values, strict=True):
        cell = replace(side.cells[KEY], num_launches=launches)
        cell.spreads[EFFICIENCY.name] = Spread(value, (half / 12.7) ** 2, 1.0)
        side.cells[KEY] = cell
    return history(sides, EFFICIENCY, 0.02)


def test_a_jump_of_two_runs_is_a_change_that_is_not_confirmed():
    found = efficiencies((0.701, 0.012), (0.952, 0.018))
    assert found.sentence == (
        "resnet18 on 2 ranks: scaling efficiency +25.1 points from r1 on (000000000): changed, "
        "not confirmed (one launch each)."
    )
    assert found.rows["is_suspected"].tolist() == [False, True]
    assert not found.rows["is_change"].any()
    assert change_at(found.rows.to_dict("records")[1], EFFICIENCY) == "+25.1 points, not confirmed"
    several = efficiencies((0.701, 0.012), (0.952, 0.018), launches=2)
    assert several.sentence.endswith("(4 runs on either side would confirm it).")


@pytest.mark.parametrize(
    "values",
    [
        ((0.701, 0.2), (0.952, 0.2)),
        ((0.701, 0.001), (0.712, 0.001)),
        ((0.70, 0.001), (0.80, 0.001), (0.70, 0.001), (0.85, 0.001)),
    ],
    ids=["intervals overlap", "within the margin", "no larger than before"],
)
def test_what_may_be_noise_is_not_suspected(values):
    found = efficiencies(*values)
    assert found.sentence.startswith("No change of the scaling efficiency")


def test_the_latest_run_is_suspected_after_many_alike():
    found = history(noisy([50.0] * 9 + [60.0]), STEP_TIME, 0.02)
    assert found.rows.loc[found.rows["is_suspected"], "run"].tolist() == ["r9"]


def test_a_run_without_a_number_hides_no_change():
    runs = noisy([50.0] * 8 + [55.0] * 8)
    runs[3] = run(3, float("nan"))
    found = history(runs, STEP_TIME, 0.02)
    assert found.rows.loc[found.rows["is_change"], "run"].tolist() == ["r8"]
    assert len(found.rows) == 15


@pytest.mark.heavy
def test_a_huge_step_is_found_with_four_runs_on_either_side():
    for seed in range(10):
        found = history(noisy([50.0] * 4 + [80.0] * 4, seed=seed, spread=0.001), STEP_TIME, 0.02)
        assert found.rows.loc[found.rows["is_change"], "run"].tolist() == ["r4"]


def test_runs_without_a_common_cell_are_refused():
    other = ("vgg16", *KEY[1:])
    with pytest.raises(UnreadableInputError, match="No cell has a step time in two"):
        history([run(0, 50.0), run(1, 50.0, other)], STEP_TIME, 0.02)
    with pytest.raises(UnreadableInputError, match="throughput"):
        history([run(0, 50.0), run(1, 50.0)], THROUGHPUT, 0.02)


def test_no_interval_of_few_launches_reaches_below_zero():
    sides = [run(number, 50.0) for number in range(2)]
    for side in sides:
        side.cells[KEY].spreads[EFFICIENCY.name] = Spread(0.5, 0.1, 1.0)
    rows = history(sides, EFFICIENCY, 0.02).rows
    assert rows["low"].tolist() == [0.0, 0.0]
    assert (rows["high"] > 1).all()


def with_cpu(side, cpu_model):
    side.manifest.hosts = [{"hostname": "node1", "cpu_model": cpu_model, "num_cores": 2}]
    return side


def test_a_change_at_the_move_to_another_machine_says_so():
    steps = noisy([10.0] * 5 + [15.0] * 5)
    cpus = ["Xeon"] * 5 + ["EPYC"] * 5
    sides = list(map(with_cpu, steps, cpus))

    found = history(sides, STEP_TIME, 0.05)

    assert found.sentence.endswith(
        "That run is not comparable with the run before: hosts: cpu_model Xeon and EPYC."
    )
    assert found.notes == (
        "r5 is not comparable with the run before: hosts: cpu_model Xeon and EPYC.",
    )


def test_a_change_on_one_machine_beside_a_later_move_does_not():
    steps = noisy([10.0] * 5 + [15.0] * 6)
    cpus = ["Xeon"] * 10 + ["EPYC"]
    sides = list(map(with_cpu, steps, cpus))

    found = history(sides, STEP_TIME, 0.05)

    assert "from r5 on" in found.sentence
    assert "not comparable" not in found.sentence
    assert len(found.notes) == 1


def test_a_run_of_another_machine_without_the_cell_is_no_doubt_of_the_change():
    steps = noisy([10.0] * 5 + [15.0] * 5)
    between = replace(run(4, 1.0, key=("mnist", *KEY[1:])), name="other")
    between.manifest.created_at = "2026-11-05T12:00:00+00:00"
    sides = [with_cpu(side, "Xeon") for side in steps] + [with_cpu(between, "EPYC")]
    sides.append(with_cpu(run(20, 1.0, key=("mnist", *KEY[1:])), "Xeon"))

    found = history(sides, STEP_TIME, 0.05)

    assert "from r5 on" in found.sentence
    assert "not comparable" not in found.sentence
    assert [note.split()[0] for note in found.notes] == ["other", "r5"]
