import io

import pytest

from hvdprof.figures.waterfall_figure import waterfall_figure
from hvdprof.report.terminal.terminal_report import TerminalReporter
from hvdprof.report.terminal.waterfall_section import Bar, drawn, shape_waterfall
from tests.builders import finished_analysis
from tests.builders.analysis import analysis_of, sweep, with_a_straggler
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts


def printed(analysis, width):
    stream = io.StringIO()
    TerminalReporter(width).render(analysis, stream)
    return stream.getvalue()


@pytest.mark.heavy
def test_the_longest_term_has_the_longest_bar(tmp_path):
    analysis = analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 14.0}, blocked_ms={2: 3.0}))

    lines = printed(analysis, 100).splitlines()
    bars = [line for line in lines if "█" in line]

    assert max(bars, key=lambda line: line.count("█")).startswith("  exposed transfer")
    assert any(line.startswith("Where the time goes") for line in lines)
    assert max(map(len, bars)) <= 100


@pytest.mark.heavy
def test_a_terminal_without_room_keeps_the_numbers(tmp_path):
    analysis = analysis_of(tmp_path / "run", sweep({0: 10.0, 2: 14.0}, blocked_ms={2: 3.0}))

    assert "  exposed transfer " in printed(analysis, 60)


@pytest.mark.heavy
def test_a_straggler_is_one_row_with_its_name_and_nothing_is_none(tmp_path):
    page = shape_waterfall(analysis_of(tmp_path / "run", with_a_straggler()))

    assert [bar.name for bar in page.bars] == [
        "straggler: rank 1, forward phase",
        "exposed transfer",
    ]
    assert page.bars[0].time == "3.00 ms"


@pytest.mark.heavy
def test_a_trace_pass_splits_exposed_transfer(tmp_path):
    passes = sweep({0: 10.0, 2: 14.0}, blocked_ms={2: 3.0})
    traced = SegmentSpec(timeline=True, parts_ms=typical_parts(14.0, 3.0))
    passes.append(PassSpec(size=2, mode="trace", segments=[traced]))
    analysis = analysis_of(tmp_path / "run", passes)

    bars = {bar.name: bar for bar in shape_waterfall(analysis).bars}

    # The collectives of the synthetic timeline fill the blocked time.
    assert bars["  of it collectives executing"].time == bars["exposed transfer"].time
    assert bars["  of it negotiation and cycle"].share == "0.0 %"
    (found,) = analysis.findings[analysis.findings["id"] == "cycle-bound"]["evidence"]
    assert "A collective executes in 100 % of that time." in found


@pytest.mark.heavy
def test_one_size_alone_is_held_against_its_own_compute(tmp_path):
    page = shape_waterfall(analysis_of(tmp_path / "run", sweep({2: 12.5}, blocked_ms={2: 2.5})))

    assert page.title == (
        "mnist on 2 ranks: 3.50 ms per step beyond the compute that the ranks share"
    )


@pytest.mark.heavy
def test_a_cell_that_is_as_its_baseline_has_no_bars(tmp_path):
    analysis = analysis_of(tmp_path / "run", sweep({1: 10.0, 2: 10.0}))

    assert shape_waterfall(analysis) is None
    assert "Where the time goes" not in printed(analysis, 80)


def test_without_a_waterfall_nothing_is_printed():
    assert shape_waterfall(finished_analysis.analysis()) is None


def test_gains_are_hatched():
    assert drawn(Bar("", "", "", 0.5, is_gain=True), 10) == "░░░░░"
    assert drawn(Bar("", "", "", 0.55, is_gain=False), 10) == "█████▌"


@pytest.mark.heavy
def test_in_strong_scaling_a_step_is_held_against_as_many_samples(tmp_path):
    passes = [
        PassSpec(
            size=size,
            repeat=repeat,
            segments=[
                SegmentSpec(
                    batch_size=64 // size,
                    parts_ms=typical_parts(length_ms * (1 + repeat / 1000), 0.5 * (size - 1)),
                )
            ],
        )
        for repeat in (1, 2)
        for size, length_ms in ((1, 40.0), (2, 26.0))
    ]
    analysis = analysis_of(tmp_path / "run", passes, settings={"scaling": "strong"})
    page = shape_waterfall(analysis)
    # Half of the samples take 20 of the 40 ms.
    assert page.title.startswith("mnist on 2 ranks: 6.0")
    assert page.title.endswith(" more per step than as many samples take with horovod np=1")
    (own,) = analysis.findings.loc[analysis.findings["id"] == "compute-inflation", "evidence"]
    assert "more per step than the baseline needs for as many samples" in own
    assert waterfall_figure(analysis).data[0].y == ("baseline,<br>same number<br>of samples",)
