import json
import math

import pytest

from benchmarks import prediction
from benchmarks.prediction import (
    EMPIRICAL,
    FORECAST,
    NAIVE,
    Cell,
    page_text,
    table,
)
from hvdprof import api
from hvdprof.errors import UsageError
from hvdprof.rundir.manifest import Mode
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

PERFECT = {1: 100.0, 2: 200.0}


def _cell(method, predicted, *, size=8, fitted=(1, 2), job="gloo-100", **values):
    return Cell(
        job=job,
        model="m",
        method=method,
        fitted=fitted,
        size=size,
        measured=100.0,
        predicted=predicted,
        **values,
    )


@pytest.mark.parametrize("name", NAIVE)
def test_every_naive_model_keeps_a_perfect_job_perfect(name):
    assert NAIVE[name](PERFECT, 16) == pytest.approx(1600.0)


@pytest.mark.parametrize(
    ("name", "growth"),
    [
        ("T1 (1 + b log2 N)", 1 + 0.1 * 3),
        ("T1 (1 + b 2(N-1)/N)", 1 + 0.1 * 2 * 7 / 8),
        ("T1 (1 + b (N-1))", 1 + 0.1 * 7),
    ],
)
def test_a_job_that_grows_as_the_model_says_is_predicted_exactly(name, growth):
    # Every form is 1 at two ranks, so a step that is 10 % longer there has b = 0.1.
    rates = {1: 100.0, 2: 2 * 100 / 1.1}
    assert NAIVE[name](rates, 8) == pytest.approx(8 * 100 / growth)
    assert NAIVE["efficiency stays"](rates, 8) == pytest.approx(8 * 100 / 1.1)


def test_a_band_covers_what_lies_between_its_ends():
    cell = _cell(FORECAST, 90.0, low50=95.0, high50=99.0, low90=80.0, high90=110.0)
    assert (cell.covers(50), cell.covers(90)) == (False, True)
    assert (cell.ratio, round(cell.error, 9)) == (4, -0.1)
    assert _cell(EMPIRICAL, 90.0).covers(90) is None


def test_a_band_without_a_lower_end_covers_nothing_and_is_counted_apart():
    inside = _cell(FORECAST, 90.0, low90=math.nan, high90=110.0)
    assert (inside.covers(90), inside.lies_below()) == (None, True)
    outside = _cell(FORECAST, 90.0, low90=math.nan, high90=90.0)
    assert (outside.covers(90), outside.lies_below()) == (None, False)
    assert _cell(FORECAST, 90.0, low90=80.0, high90=110.0).lies_below() is None
    assert _cell(EMPIRICAL, 90.0).lies_below() is None
    assert "| open: 1 of 2 |" in table([inside, outside])


def test_cells_that_do_not_repeat_are_left_out_of_a_further_table():
    names = (FORECAST, "efficiency stays")
    noisy = [_cell(name, 150.0, job="gloo-50", repeat_difference=0.12) for name in names]
    repeated = [_cell(name, 102.0, repeat_difference=0.04) for name in names]
    text = page_text([*noisy, *repeated])
    assert "**gloo**, 2 cells:" in text
    assert "differ by 5 % or more, 1 cell:\n\n| predicted |" in text
    assert "| forecast | 2 | 26.0 % |" in text
    assert "| forecast | 1 | 2.0 % |" in text
    assert "| gloo-50 | 8 | 12.0 % |" in text
    assert "Median: 8.0 %." in text
    assert "5 % or more" not in page_text(repeated)
    assert "| gloo-100 | 8 | one launch |" in page_text([_cell(name, 90.0) for name in names])


def test_several_controllers_have_a_table_of_all():
    cells = [_cell(FORECAST, 90.0, job=job) for job in ("gloo-100", "mpi-100")]
    text = page_text(cells)
    assert text.startswith("**All**, 2 cells:")
    assert text.count("| predicted |") == 3


def test_the_table_has_a_row_per_ratio_and_model():
    naive = "efficiency stays"
    cells = [
        _cell(FORECAST, 90.0, size=4, low50=1.0, high50=2.0, low90=1.0, high90=200.0),
        _cell(FORECAST, 104.0, low50=99.0, high50=101.0, low90=1.0, high90=99.0),
        _cell(naive, 130.0, size=4),
        _cell(naive, 103.0),
    ]
    assert table(cells).splitlines()[2:] == [
        "| x2 | forecast | 1 | 10.0 % | 10.0 % | -10.0 % | 0 of 1 | 1 of 1 |  |",
        "| x2 | efficiency stays | 1 | 30.0 % | 30.0 % | +30.0 % |  |  | 0 of 1 |",
        "| x4 | forecast | 1 | 4.0 % | 4.0 % | +4.0 % | 1 of 1 | 0 of 1 |  |",
        "| x4 | efficiency stays | 1 | 3.0 % | 3.0 % | +3.0 % |  |  | 1 of 1 |",
    ]


@pytest.fixture
def recorded(tmp_path):
    def write(name, sizes):
        passes = [
            PassSpec(
                size=size,
                segments=[SegmentSpec(parts_ms=typical_parts(10.0 + size, 0.1), num_steps=20)],
            )
            for size in sizes
        ]
        write_run(tmp_path / name, passes)
        (tmp_path / f"{name}.done").touch()

    write("gloo-100-np1-2-4", (1, 2, 4))
    write("gloo-100-np8", (8,))
    return tmp_path


def test_a_fit_sees_its_own_sizes_alone(recorded, tmp_path):
    part = prediction._restricted(recorded / "gloo-100-np1-2-4", (1, 2), tmp_path / "part")
    run = api.load_run(part)
    assert set(run.segments["size"]) == {1, 2}
    assert set(run.steps["pass_id"]) == set(run.segments["pass_id"])


def test_allreduces_at_the_predicted_size_are_left_out(recorded, tmp_path):
    folder = recorded / "gloo-100-np1-2-4"
    (folder / "net.jsonl").write_text("{}\n", encoding="utf-8")
    (folder / "other.jsonl").write_text("{}\n", encoding="utf-8")
    part = prediction._restricted(folder, (1, 2), tmp_path / "part")
    assert not (part / "net.jsonl").is_symlink()
    assert (part / "other.jsonl").is_symlink()


@pytest.mark.heavy
def test_two_launches_of_a_size_differ(tmp_path):
    segments = [SegmentSpec(parts_ms=typical_parts(ms, 0.1), num_steps=20) for ms in (9.5, 10.5)]
    traced = SegmentSpec(parts_ms=typical_parts(30.0, 0.1), num_steps=20)
    passes = [PassSpec(size=2, segments=[one]) for one in segments]
    write_run(tmp_path / "run", [*passes, PassSpec(size=2, mode=Mode.TRACE, segments=[traced])])
    _, differences = prediction._measured(tmp_path / "run")
    assert list(differences.values()) == [pytest.approx(0.1, rel=0.1)]


@pytest.mark.heavy
def test_every_larger_size_of_every_job_is_a_cell(recorded, monkeypatch, capsys):
    asked = []

    def note(analysis, question):
        asked.append((tuple(sorted(set(analysis.scaling["np"]))), question.sizes))
        raise UsageError("no network")

    monkeypatch.setattr(prediction, "forecast", note)
    cells = list(prediction.cells_of([recorded]))
    # Fits on 1 and 2 predict 4 and 8, those on 1, 2 and 4 predict 8.
    assert asked == [((1, 2), (4, 8)), ((1, 2, 4), (8,))]
    assert {(cell.fitted, cell.size) for cell in cells} == {
        ((1, 2), 4),
        ((1, 2), 8),
        ((1, 2, 4), 8),
    }
    assert {cell.method for cell in cells} == {EMPIRICAL, *NAIVE}
    # A step takes 10 ms and 1 ms per rank: 8 ranks of 32 samples in 18 ms.
    assert {round(cell.measured) for cell in cells if cell.size == 8} == {round(8 * 32 / 0.018)}
    assert "gloo-100" in capsys.readouterr().err


@pytest.mark.heavy
def test_cells_and_pages_are_written(recorded, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(prediction, "forecast", lambda *_: (_ for _ in ()).throw(UsageError("no")))
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- prediction begin -->\n<!-- prediction end -->\nb\n", encoding="utf-8")
    cells = tmp_path / "cells.json"
    words = ["prediction", "--runs", str(recorded), "--cells", str(cells), "--write", str(page)]
    monkeypatch.setattr("sys.argv", words)
    prediction.main()
    assert len(json.loads(cells.read_text(encoding="utf-8"))) == 15
    assert "| throughput alone |" in page.read_text(encoding="utf-8")
    assert "| throughput alone |" in capsys.readouterr().out
    # The kept cells are read again instead of predicted.
    monkeypatch.setattr("sys.argv", [*words, "--largest", "4"])
    monkeypatch.setattr(prediction, "cells_of", lambda _: 1 / 0)
    prediction.main()
    assert "x4" not in page.read_text(encoding="utf-8")


@pytest.mark.heavy
def test_another_section_of_a_page_is_written(recorded, monkeypatch, tmp_path):
    monkeypatch.setattr(prediction, "forecast", lambda *_: (_ for _ in ()).throw(UsageError("no")))
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- dilated begin -->\n<!-- dilated end -->\nb\n", encoding="utf-8")
    words = ["prediction", "--runs", str(recorded), "--section", "dilated", "--write", str(page)]
    monkeypatch.setattr("sys.argv", words)
    prediction.main()
    assert "| throughput alone |" in page.read_text(encoding="utf-8")
