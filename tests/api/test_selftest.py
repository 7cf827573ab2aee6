"""The cases of a self-test, its limit, and what recorder files say of clocks."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from hvdprof.api import selftest as selftest_api
from hvdprof.api.live_selftest import NUM_LIVE_STEPS
from hvdprof.api.options import SelftestOptions, cases_of, check_clocks
from hvdprof.api.selftest import SelftestMeasurement
from hvdprof.errors import StorageError, SweepIncompleteError, UsageError
from hvdprof.launch.plan.time_budget import TimeBudget
from hvdprof.launch.run.script_launcher import Tools
from hvdprof.model.results.selftest import CaseOutcome, CaseResult, SelftestCase
from hvdprof.rundir.recording.fault_plan import parse_faults
from tests.builders.survey import make_build, make_mpi


def test_every_case_injects_what_it_says() -> None:
    for case in cases_of(3):
        faults = parse_faults(case.fault)
        assert len(faults) == bool(case.fault)
        for fault in faults:
            assert fault.ranks == (2,)
        if case.rank is not None:
            assert faults[0].amount == case.amount_ns
            assert case.phase == (faults[0].phase or "outside")
    phases = [case.phase for case in cases_of(2) if case.phase]
    assert sorted(phases) == ["backward", "data", "forward", "optimizer", "outside"]
    assert [case.rank for case in cases_of(2)].count(None) == 2


def _record(run: Path, rank: int, boot: str, *clocks: tuple[int, int, int]) -> None:
    folder = run / "passes" / "01" / "recorder"
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, object]] = [
        {"kind": "header", "monotonic_ns": 1_000, "host": {"boot_id": boot}}
    ]
    lines += [
        {"kind": "clock", "monotonic_ns": now, "offset_ns": offset, "error_ns": bound}
        for now, offset, bound in clocks
    ]
    (folder / f"rank-{rank}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))


def test_clocks_are_held_against_the_offset_that_was_injected(tmp_path: Path) -> None:
    case = SelftestCase(name="", offset_ns=5e6, drift=20e-6)
    _record(tmp_path, 0, "a")
    # Rank 1 is right, rank 2 is 5 ms ahead and gains 20 µs in its second.
    _record(tmp_path, 1, "a", (1_000, 300, 1_000))
    late = 1_000 + 1_000_000_000
    _record(tmp_path, 2, "a", (1_000, -5_000_400, 1_000), (late, -5_020_500, 1_000))
    found = check_clocks(tmp_path, case, 3)
    assert (found.num_compared, found.num_known, found.num_within) == (3, 3, 3)
    assert (found.largest_bound_ns, found.largest_error_ns) == (1_000, pytest.approx(500))
    _record(tmp_path, 2, "a", (1_000, -5_002_000, 1_000))
    assert check_clocks(tmp_path, case, 3).num_within == 1
    # On another host the true offset is unknown.
    _record(tmp_path, 2, "b", (1_000, 77_000_000, 2_000))
    found = check_clocks(tmp_path, case, 3)
    assert (found.num_compared, found.num_known, found.largest_bound_ns) == (2, 1, 2_000)


@pytest.fixture
def horovod(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose Horovod and MPI are those of the stand-ins."""
    monkeypatch.setattr(
        selftest_api, "find_tools", lambda _launcher: Tools(make_build(), make_mpi())
    )


@pytest.mark.usefixtures("horovod")
def test_ranks_and_estimate_follow_from_the_hosts() -> None:
    here = SelftestMeasurement(SelftestOptions(controller="mpi"))
    assert (here.num_ranks, len(here.cases), here.limit_s) == (2, 7, 300.0)
    assert 60 < here.estimate_s < 120
    there = SelftestMeasurement(SelftestOptions(controller="mpi", hosts="h1:2,h2:2", limit="90s"))
    assert (there.num_ranks, there.limit_s) == (4, 90.0)
    assert there.estimate_s > here.estimate_s
    assert [case.rank for case in there.cases if case.rank is not None] == [3] * 5


@pytest.mark.usefixtures("horovod")
def test_a_live_self_test_is_one_light_launch_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measurement = SelftestMeasurement(SelftestOptions(controller="mpi", live=True))
    planned = measurement._plan(Path("unused"))
    assert planned.manifest.passes[0].segments[0].segment.num_steps == NUM_LIVE_STEPS
    assert planned.settings.options.light
    assert 60 < measurement.estimate_s < 100
    wrong = CaseResult(case=measurement.cases[0], outcome=CaseOutcome.MISSED)
    monkeypatch.setattr(SelftestMeasurement, "_result", lambda *_: wrong)
    result = measurement.measure(lambda _: None)
    assert (result.cases, result.recorder, result.not_measured) == ((wrong,), None, ())
    assert not result.is_passed


@pytest.mark.parametrize(
    ("options", "is_installed", "engine"),
    [
        (SelftestOptions(), True, "horovod"),
        (SelftestOptions(), False, "ddp"),
        (SelftestOptions(engine="ddp"), True, "ddp"),
        (SelftestOptions(launcher="torchrun"), True, "ddp"),
        # What only Horovod has is not answered with another engine.
        (SelftestOptions(controller="gloo"), False, "horovod"),
    ],
)
def test_without_horovod_ddp_is_tested(
    monkeypatch: pytest.MonkeyPatch, options: SelftestOptions, is_installed: bool, engine: str
) -> None:
    asked: list[str] = []

    def tools(launcher: str) -> Tools:
        asked.append(launcher)
        return Tools(make_build(), make_mpi())

    monkeypatch.setattr(selftest_api, "find_tools", tools)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object() if is_installed else None)
    measurement = SelftestMeasurement(options)
    assert measurement.engine == engine
    assert asked == ["torchrun" if engine == "ddp" else "auto"]


@pytest.mark.usefixtures("horovod")
def test_what_cannot_be_tested_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one slot"):
        SelftestMeasurement(SelftestOptions(controller="mpi", hosts="h1:1"))
    with pytest.raises(UsageError, match="--np"):
        SelftestMeasurement(SelftestOptions(controller="mpi", np=1))
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="holds something"):
        SelftestMeasurement(SelftestOptions(controller="mpi", output=tmp_path))


@pytest.mark.usefixtures("horovod")
def test_no_launch_starts_after_the_limit_and_a_failed_one_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Planned:
        def started_sweep(self) -> SimpleNamespace:
            return SimpleNamespace(environment={})

        def measure(self) -> None:
            raise SweepIncompleteError("a launch failed")

    measurement = SelftestMeasurement(SelftestOptions(controller="mpi", limit="100s"))
    # A failed launch is tried once more while there is time.
    times = iter([0.0, 0.0, 50.0, 99.0, *[101.0] * 20])
    monkeypatch.setattr(
        selftest_api, "TimeBudget", lambda limit_s: TimeBudget(limit_s, lambda: next(times))
    )
    monkeypatch.setattr(SelftestMeasurement, "_plan", lambda *_: Planned())
    monkeypatch.setattr(selftest_api, "python_program", lambda *_: ("false",))
    seen: list[CaseResult] = []
    result = measurement.measure(seen.append)
    assert result.cases == tuple(seen)
    outcomes = [one.outcome for one in result.cases]
    assert outcomes == [*[CaseOutcome.FAILED] * 2, *[CaseOutcome.NOT_RUN] * 5]
    assert [one.attempts for one in result.cases[:2]] == [2, 1]
    assert result.cases[0].reason == "a launch failed"
    assert result.recorder is None
    assert any("ended with code 1" in text for text in result.not_measured)
    assert result.is_passed
    assert len(result.unknown) == 7
