import pytest

from hvdprof.figures.palette import CAUSE_COLOURS
from hvdprof.figures.waterfall_figure import WaterfallCell, waterfall_cells, waterfall_figure
from hvdprof.model.causes import CAUSES, MODEL_ERROR, PAUSE, STRAGGLER
from tests.builders import finished_analysis
from tests.builders.analysis import analysis_of, sweep, with_a_straggler
from tests.builders.run_directory import PassSpec, SegmentSpec


@pytest.mark.heavy
def test_bars_lead_from_the_baseline_to_the_cell(tmp_path):
    analysis = analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 12.5}, blocked_ms={2: 2.0}))

    bars = waterfall_figure(analysis).data

    assert len(bars) == len(CAUSES) - len((STRAGGLER, PAUSE)) + 2
    ends = [bar.base[0] + bar.x[0] for bar in bars[1:-1]]
    begins = [bar.base[0] for bar in bars[1:-1]]
    assert begins == pytest.approx([bars[0].x[0], *ends[:-1]])
    assert ends[-1] == pytest.approx(bars[-1].x[0])
    assert bars[0].x[0] == pytest.approx(10.0, rel=0.01)
    assert bars[-1].x[0] == pytest.approx(12.5, rel=0.01)


@pytest.mark.heavy
def test_a_straggler_has_a_bar_with_its_name(tmp_path):
    figure = waterfall_figure(analysis_of(tmp_path / "run", with_a_straggler()))

    (own,) = [bar for bar in figure.data if "rank 1" in bar.y[0]]
    assert own.y == ("straggler: rank 1,<br>forward phase<br><b>3.00 ms · +23.1 points</b>",)
    assert own.x[0] == pytest.approx(3.0, rel=0.02)
    assert own.marker.color == CAUSE_COLOURS[STRAGGLER]
    assert "saved if removed: 3.0" in own.hovertext[0]


@pytest.mark.heavy
def test_the_low_one_has_bars_of_one_line_that_end_at_the_cell(tmp_path):
    analysis = analysis_of(tmp_path / "run", with_a_straggler())
    figure = waterfall_figure(analysis, compact=True)

    assert figure.layout.height <= 280
    assert len(figure.data) <= 7
    (own,) = [bar for bar in figure.data if "rank 1" in bar.y[0]]
    assert own.y == ("straggler: rank 1",)
    assert own.text == ("3.00 ms, +23.1 pts",)
    reached = figure.data[0].x[0] + sum(bar.x[0] for bar in figure.data[1:-1])
    assert reached == pytest.approx(figure.data[-1].x[0], rel=0.01)
    # The texts beside the bars, and little more.
    assert reached < figure.layout.xaxis.range[1] < 1.6 * reached


@pytest.mark.heavy
def test_the_low_one_merges_bars_too_narrow_to_be_read(tmp_path):
    analysis = analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 12.5}, blocked_ms={2: 2.0}))
    causes = analysis.table("waterfall")
    is_own = (causes["np"] == 2).to_numpy()
    # Of 12.5 ms: three bars of less than 4 of 400 pixels, and one that is seen.
    small = (causes["term"].isin(["jitter", "input-bound", "outside"])).to_numpy() & is_own
    for name, value in (("time_ns", 0.1e6), ("share", 0.1 / 12.5)):
        causes.loc[small, name] = value
    figure = waterfall_figure(analysis, compact=True)
    names = [bar.y[0] for bar in figure.data]
    (merged,) = [bar for bar in figure.data if "other cause" in bar.y[0]]
    assert merged.hovertext[0].count("100 µs") == 3
    assert len(names) < 7


@pytest.mark.heavy
def test_a_time_has_no_more_digits_than_its_interval(tmp_path):
    step_ms = {0: 10.0, 2: 12.5}
    passes = sweep(step_ms, blocked_ms={2: 2.0})
    passes += [
        PassSpec(size=2, repeat=4, segments=[SegmentSpec(parts_ms={"forward": 9, "blocked": 9})])
    ]
    figure = waterfall_figure(analysis_of(tmp_path / "run", passes), compact=True)
    (text,) = [bar.text[0] for bar in figure.data if bar.y[0] == "exposed transfer"]
    time, _, points = text.partition(", ")
    assert len(time.removesuffix(" ms").replace(".", "")) == 2, time
    assert "." not in points, f"{points} beside {time}"


@pytest.mark.heavy
def test_without_a_baseline_the_bars_begin_at_the_compute(tmp_path):
    figure = waterfall_figure(analysis_of(tmp_path / "run", sweep({2: 12.5}, blocked_ms={2: 2.5})))

    assert figure.data[0].y == ("compute",)
    assert figure.data[0].x[0] == pytest.approx(9.0, rel=0.01)
    assert figure.data[-1].x[0] == pytest.approx(12.5, rel=0.01)


@pytest.mark.slow
def test_any_cell_of_the_table_can_be_asked_for(tmp_path):
    times = {0: 10.0, 2: 12.5, 4: 15.0}
    analysis = analysis_of(tmp_path / "run", sweep(times, blocked_ms={2: 2.0, 4: 4.0}))

    assert {cell.np for cell in waterfall_cells(analysis)} >= {2, 4}
    figure = waterfall_figure(analysis, WaterfallCell("mnist", 2))
    assert figure.data[-1].x[0] == pytest.approx(12.5, rel=0.01)
    assert figure.data[-1].y == ("mnist<br>2 ranks<br>Horovod",)
    nothing = waterfall_figure(analysis, WaterfallCell("mnist", 2, "fp16", "adasum"))
    assert "No throughput" in nothing.layout.annotations[0].text


def test_without_a_waterfall_it_says_so():
    figure = waterfall_figure(finished_analysis.analysis())

    assert "No throughput" in figure.layout.annotations[0].text


def test_every_cause_has_a_colour_of_its_own():
    # Forecasts have the error of their model beside the causes that are measured.
    assert set(CAUSE_COLOURS) == {*CAUSES, MODEL_ERROR}
    assert len(set(CAUSE_COLOURS.values())) == len(CAUSE_COLOURS)


@pytest.mark.heavy
def test_a_cell_that_takes_exactly_as_long_as_its_baseline(tmp_path):
    own = [PassSpec(size=size, segments=[SegmentSpec(parts_ms={"forward": 8})]) for size in (1, 2)]
    figure = waterfall_figure(analysis_of(tmp_path / "run", own))
    assert "no loss" in figure.layout.annotations[0].text
