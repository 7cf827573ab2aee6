import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hvdprof.launch.plan.design import plan_design
from hvdprof.launch.plan.options import record_of
from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.run.repeats import Repeats
from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.manifest import (
    MANIFEST_SCHEMA_VERSION,
    Manifest,
    PassRecord,
    Status,
)
from hvdprof.rundir.stopping import KnownCell
from tests.builders.bench_settings import LOCAL_FOUR_CORES, MNIST, RESNET, bench_settings

Widths = dict[str, float]


def known(model: str, half_width: float, step_noise: float | None = None) -> KnownCell:
    return KnownCell(
        model=model,
        size=2,
        engine="horovod",
        baseline_size=1,
        baseline_engine="torch",
        half_width=None if math.isnan(half_width) else half_width / 1.2,
        stopping_half_width=None if math.isnan(half_width) else half_width,
        step_noise=step_noise,
    )


class _Run:
    """A run whose passes end as a test says, and whose intervals are stated per look."""

    def __init__(self, looks: Sequence[Sequence[KnownCell]], **changes: object) -> None:
        self.settings: Settings = bench_settings(
            **{
                "models": (MNIST, RESNET),
                "repeats": 6,
                "precision": 0.05,
                "max_seconds": 1.5,
                "num_steps": None,
            }
            | changes
        )
        self.manifest = manifest_of(self.settings)
        self.confidences: list[float] = []
        self._looks = iter(looks)
        self.repeats = Repeats(self.settings, self.manifest, Path("run"), self._look)

    def _look(self, folder: Path, confidence: float) -> list[KnownCell]:
        assert folder == Path("run")
        self.confidences.append(confidence)
        return list(next(self._looks))

    def end(self, seconds: float = 10.0, fails: Callable[[str], bool] = lambda _: False) -> None:
        """End every open pass."""
        for record in self.manifest.passes:
            if record.status != Status.PLANNED:
                continue
            record.duration_s = seconds
            self.manifest.elapsed_s += seconds
            record.status = Status.DONE
            for one in record.segments:
                failed = fails(f"{record.size} {one.segment.id}")
                one.status = Status.FAILED if failed else Status.DONE
                one.failure = Failure(reason="it broke") if failed else None

    def next(self) -> list[PassRecord]:
        passes = self.repeats.next()
        self.manifest.passes += passes
        return passes


def manifest_of(settings: Settings) -> Manifest:
    design = plan_design(settings, LOCAL_FOUR_CORES)
    return Manifest(
        schema_version=MANIFEST_SCHEMA_VERSION,
        hvdprof_version="0",
        name="test",
        created_at="2026-11-20T22:48:41+00:00",
        command=[],
        settings=settings.record(),
        options=record_of(settings.options),
        environment={},
        versions={},
        hosts=[{"hostname": "node1"}],
        git=None,
        passes=design.passes,
        skipped=design.skipped,
    )


def ids(passes: Sequence[PassRecord]) -> list[str]:
    return [record.id for record in passes]


def models(record: PassRecord) -> list[str]:
    return [one.segment.model for one in record.segments]


WIDE = (known("mnist", 0.2), known("resnet18", 0.1))


def test_the_first_repeat_is_planned_before_the_start() -> None:
    run = _Run([])
    assert ids(run.manifest.passes) == [
        "01-np1-torch-r1",
        "02-np1-throughput-r1",
        "03-np2-throughput-r1",
        "04-np2-trace-r1",
    ]


def test_further_repeats_hold_every_cell_in_reverse_order_by_turns() -> None:
    run = _Run([WIDE, WIDE])
    run.end()
    second = run.next()
    assert ids(second) == ["05-np2-throughput-r2", "06-np1-throughput-r2", "07-np1-torch-r2"]
    assert [models(one) for one in second] == [["resnet18", "mnist"]] * 3
    assert {one.status for one in second} == {Status.PLANNED}
    run.end()
    third = run.next()
    assert ids(third) == ["08-np1-torch-r3", "09-np1-throughput-r3", "10-np2-throughput-r3"]
    assert models(third[0]) == ["mnist", "resnet18"]


def test_from_the_first_look_on_only_wide_cells_run_with_their_baseline() -> None:
    run = _Run([WIDE, WIDE, (known("mnist", 0.2), known("resnet18", 0.04))])
    for _ in range(3):
        run.end()
        passes = run.next()
    assert [(one.size, one.engine, models(one)) for one in passes] == [
        (2, "horovod", ["mnist"]),
        (1, "torch", ["mnist"]),
    ]
    assert run.manifest.stop is None


def test_it_stops_when_all_are_known_well_enough() -> None:
    good = (known("mnist", 0.03), known("resnet18", 0.048))
    run = _Run([good, good, good])
    for _ in range(2):
        run.end()
        assert run.next(), "launches differ: two repeats say too little"
    run.end()
    assert run.next() == []
    stop = run.manifest.stop
    assert stop is not None
    assert (stop.reason, stop.num_repeats, stop.most_repeats) == ("precision", 3, 6)
    assert stop.half_width == pytest.approx(0.04)
    assert stop.missing_s is None
    assert [look.repeat for look in run.manifest.looks] == [1, 2, 3]
    assert run.confidences[2] == max(run.confidences)


def test_it_stops_after_the_most_repeats_and_says_what_is_missing() -> None:
    run = _Run([WIDE] * 3, repeats=3)
    for number in range(3):
        run.end()
        assert bool(run.next()) == (number < 2)
    stop = run.manifest.stop
    assert stop is not None and stop.reason == "repeats"
    # 0.2 to 0.05 takes 16 times as many repeats: 45 more of two launches of 10 s.
    assert stop.missing_s == pytest.approx(45 * 20, rel=0.01)


def test_a_repeat_starts_only_where_it_is_expected_to_end_in_time() -> None:
    # 40 s for the first repeat and 30 s for each further one.
    run = _Run([WIDE, WIDE], budget_s=75.0)
    run.end()
    assert len(run.next()) == 3
    run.end()
    assert run.next() == []
    stop = run.manifest.stop
    assert stop is not None and (stop.reason, stop.num_repeats) == ("budget", 2)
    assert stop.elapsed_s == pytest.approx(70.0)


def test_where_time_is_short_the_widest_cell_comes_first() -> None:
    run = _Run([WIDE], budget_s=58.0)
    run.end()
    # mnist alone: 2/3 of the units of two launches, and half of their measured seconds.
    assert [(one.size, one.engine, models(one)) for one in run.next()] == [
        (2, "horovod", ["mnist"]),
        (1, "torch", ["mnist"]),
    ]


def test_a_pass_of_a_repeat_that_takes_too_long_is_not_started() -> None:
    run = _Run([WIDE], budget_s=80.0)
    first = run.manifest.passes[0]
    run.end()
    last = run.next()[-1]
    assert not run.repeats.is_over_time(last)
    run.manifest.elapsed_s = 90.0
    assert run.repeats.is_over_time(last)
    assert not run.repeats.is_over_time(first), "a resumed run ends what it had begun"


def test_a_budget_alone_goes_on_until_the_time_is_up() -> None:
    run = _Run([WIDE] * 5, precision=None, budget_s=130.0)
    run.end()
    while run.next():
        run.end()
    stop = run.manifest.stop
    assert stop is not None and (stop.reason, stop.num_repeats) == ("budget", 4)
    assert stop.missing_s is None


def test_cells_that_fail_are_tried_twice_and_then_left_out() -> None:
    run = _Run([(known("mnist", 0.2),)] * 2)
    for _ in range(2):
        run.end(fails=lambda cell: "resnet18" in cell and cell.startswith("2"))
        passes = run.next()
    assert [models(one) for one in passes] == [
        ["mnist", "resnet18"],
        ["mnist", "resnet18"],
        ["mnist"],
    ]


def test_without_any_result_there_is_nothing_to_narrow() -> None:
    run = _Run([()] * 3)
    run.end(fails=lambda _: True)
    run.next()
    run.end(fails=lambda _: True)
    assert run.next() == []
    assert run.manifest.stop is not None
    assert run.manifest.stop.reason == "nothing"


def test_toggles_are_not_launched_again_for_the_efficiency() -> None:
    run = _Run([WIDE] * 3, compressions=("none", "fp16"))
    for _ in range(3):
        run.end()
        passes = run.next()
    cells = {one.segment.id for record in passes for one in record.segments}
    assert cells == {
        "mnist-none-average",
        "resnet18-none-average",
        "mnist-torch",
        "resnet18-torch",
    }


@pytest.mark.parametrize(
    ("step_noise", "seconds"),
    [
        # A start of (10 - 3) s for two models is 3.5 s each: sqrt(3.5 * 1.5 * noise).
        (None, 1.5),
        (0.01, 1.5),
        (1.0, 2.3),
        (100.0, 6.0),
    ],
)
def test_launches_become_longer_where_steps_make_the_error(
    step_noise: float | None, seconds: float
) -> None:
    run = _Run([(known("mnist", 0.2, step_noise), known("resnet18", 0.2, None))])
    run.end()
    longest = {
        one.segment.model: one.segment.max_seconds
        for record in run.next()
        for one in record.segments
    }
    assert longest == {"mnist": pytest.approx(seconds), "resnet18": 1.5}


def test_launches_stay_short_where_time_is_short() -> None:
    run = _Run([(known("mnist", 0.2, 100.0), known("resnet18", 0.2, 100.0))], budget_s=71.0)
    run.end()
    assert {one.segment.max_seconds for record in run.next() for one in record.segments} == {1.5}


def test_an_interval_that_is_unknown_is_too_wide() -> None:
    unknown = (known("mnist", math.nan), known("resnet18", 0.01))
    run = _Run([unknown] * 3)
    for _ in range(3):
        run.end()
        passes = run.next()
    assert {model for record in passes for model in models(record)} == {"mnist"}
