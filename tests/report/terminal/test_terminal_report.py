import io
from pathlib import Path

import pytest
from rich.console import Console

from hvdprof.report.terminal.terminal_report import TerminalReporter
from tests.builders.analysis import analysis_of, with_a_straggler
from tests.builders.finished_analysis import (
    NAN,
    analysis,
    cell,
    full_analysis,
    manifest,
    pass_record,
    run,
    segment,
    torch_cell,
)

AT_80_COLUMNS = """\
resnet18 on 2 ranks: 84.2 ± 2.3 % scaling efficiency against torch np=1.
Largest loss: exposed transfer, 3.50 ms per step (11.3 %).

  Scaling efficiency     [#################...]  84.2 ± 2.3 %
  Throughput, samples/s  1,031 ± 28  (ideal 1,224)
  Potential efficiency   -  (no finding here has a known gain)
  Trust                  limited  (np=4 on 2 cores is oversubscribed: its
                         numbers say nothing about scaling)

resnet18  16 samples per rank and step, efficiency against torch np=1
                          step time         scaling  blocked        trace
np  setting    samples/s  med., p95      efficiency     mean     overhead
─────────────────────────────────────────────────────────────────────────
 1  plain        612 ± 5    26.1 ms        baseline                     -
    torch                   27.0 ms
 1  Horovod      601 ± 6    26.6 ms    98.2 ± 1.3 %  40.0 µs  1.2 ± 0.4 %
                            27.6 ms                    0.1 %
─────────────────────────────────────────────────────────────────────────
 2  Horovod   1,031 ± 28    31.0 ms    84.2 ± 2.3 %  3.50 ms  1.2 ± 0.4 %
                            33.4 ms                   11.3 %
 2  fp16      1,098 ± 32    29.1 ms    89.7 ± 2.6 %  2.21 ms  1.2 ± 0.4 %
                            30.9 ms                    7.6 %
 2  Adasum      702 ± 52    45.6 ms          57.4 %  18.6 ms  3.4 ± 5.5 %
                            61.2 ms  (52.4 to 60.8)   40.8 %
─────────────────────────────────────────────────────────────────────────
 4  Horovod  1,200 ± 110    53.1 ms  oversubscribed  22.9 ms  5.1 ± 4.9 %
                            77.0 ms                   43.1 %

Findings
  warning: Peer access between GPUs disabled
    P2P is off on node1.
    | nccl.log:7: node1:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to
      1.
    > Unset NCCL_P2P_DISABLE.

Failed
  mnist on 2 ranks (07-np2-throughput-r2): rank 1 was killed by SIGKILL
    | [1]<stderr>: out of memory
    | Process 1 exit with status code 137.

Skipped
  fp16 compression does nothing at np=1: Horovod sends nothing
    np=1 fp16: resnet18, mnist
  Adasum needs a power of two ranks
    np=3 Horovod: resnet18

Warnings
  ! np=4 on 2 cores is oversubscribed: its numbers say nothing about scaling.
  ! Other processes kept 0.6 cores busy during 03-np2-throughput-r1.

2026-11-20 22:48:41 UTC; node1 (2 cores); python 3.11.2, torch 2.13.0, horovod
0.28.1
  # open in the browser
  hvdprof dashboard runs/20261120-224841-quick
  # every rank on one clock
  hvdprof export runs/20261120-224841-quick -o trace.json
"""


def rendered(finished, width=80):
    out = io.StringIO()
    TerminalReporter(width=width).render(finished, out)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def everything():
    traced = manifest(passes=[pass_record("04-np2-trace-r1", [segment("s")])])
    return full_analysis(run=run(manifest=traced))


@pytest.mark.heavy
def test_everything_at_80_columns():
    assert rendered(everything()) == AT_80_COLUMNS


@pytest.mark.heavy
def test_wide_terminals_show_one_line_a_cell_with_the_final_loss():
    lines = rendered(everything(), width=120).splitlines()
    assert [line.split() for line in lines if line.startswith(" 2  Adasum")] == [
        [
            *("2", "Adasum", "702", "±", "52", "45.6", "ms", "61.2", "ms"),
            *("57.4", "%", "(52.4", "to", "60.8)", "18.6", "ms", "40.8", "%"),
            *("3.4", "±", "5.5", "%", "0.398"),
        ]
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width):
    text = rendered(everything(), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text


@pytest.mark.heavy
def test_a_terminal_too_narrow_for_the_numbers_still_gets_them_whole():
    text = rendered(everything(), width=40)
    assert "± 110" in text
    assert "to 60.8)" in text
    assert "oversubscribed" in text


def test_numbers_of_many_digits_still_fit_80_columns():
    noisy = cell(
        samples_per_s=123_456.0,
        samples_per_s_low=23_456.0,
        samples_per_s_high=223_456.0,
        efficiency=1.2345,
        efficiency_low=0.5,
        efficiency_high=3.25,
        trace_overhead=1.67,
        trace_overhead_low=-0.7,
        trace_overhead_high=2.2,
    )
    text = rendered(analysis([noisy]))
    assert max(map(len, text.splitlines())) <= 80
    assert all(number in text for number in ("± 100,000", "≈ 123 %", "(50", "to 325)", "to 220)"))


@pytest.mark.heavy
def test_a_negative_trace_overhead_is_shown_as_not_measurable():
    lower = cell(trace_overhead=-0.08, trace_overhead_low=-0.121, trace_overhead_high=-0.039)
    assert "not measurable" in rendered(analysis([lower]), width=140)
    narrow = rendered(analysis([lower]))
    assert "measurable" in narrow
    assert "-8.0" not in narrow


def test_an_oversubscribed_cell_shows_no_efficiency():
    text = rendered(analysis([torch_cell(), cell(np=4, oversubscribed=True, efficiency=0.4321)]))
    assert "oversubscribed" in text
    assert "43.2" not in text


def test_missing_numbers_are_dashes():
    row = cell(efficiency=NAN, efficiency_low=NAN, efficiency_high=NAN, samples_per_s=NAN)
    text = rendered(analysis([row]))
    assert "nan" not in text.lower()


@pytest.mark.heavy
def test_differing_batch_sizes_of_strong_scaling_are_named():
    text = rendered(analysis([torch_cell(batch_size=32), cell(batch_size=16)]))
    assert "resnet18  16 to 32 samples per rank and step" in text


def test_samples_of_ranks_that_differ_are_a_range_and_no_median():
    text = rendered(analysis([cell(batch_size=64, batch_size_low=31.8, batch_size_high=96.0)]))
    assert "resnet18  32 to 96 samples per rank and step" in text


@pytest.mark.heavy
def test_a_baseline_is_named_instead_of_100_percent():
    rows = [cell(np=1, baseline="horovod np=1", efficiency=1.0), cell(baseline="horovod np=1")]
    lines = rendered(analysis(rows)).splitlines()
    assert "baseline" in next(line for line in lines if line.startswith(" 1"))
    assert "efficiency against horovod np=1" in next(
        line for line in lines if line.startswith("resnet18  16")
    )


@pytest.mark.heavy
def test_a_low_efficiency_without_a_finding_says_what_is_next():
    low = cell(efficiency=0.65, efficiency_low=0.6, efficiency_high=0.7)
    text = rendered(analysis([torch_cell(), low]))
    assert "\n65.0 % efficiency without a finding\n  known: The cell loses 35.0 points" in text
    assert "\n  > hvdprof bench --preset quick --repeats 6\n" in text


@pytest.mark.heavy
def test_the_rank_that_differs_is_named(tmp_path):
    text = rendered(analysis_of(tmp_path / "run", with_a_straggler()))
    assert (
        "  Ranks by phase         Rank 1 is slower by 3.0 ms in forward (23 % of the mean\n"
        "                         step). Its delays cost 3.00 ms per step (23.1 %).\n"
    ) in text


def test_a_run_without_results_still_says_why_and_where():
    text = rendered(analysis([], warnings=("Everything failed.",)))
    assert "! Everything failed." in text
    assert "hvdprof dashboard runs/" in text


@pytest.mark.heavy
def test_export_is_only_advised_where_a_trace_pass_ended_well():
    assert "hvdprof export" not in rendered(analysis())


@pytest.mark.heavy
def test_a_long_command_is_never_broken():
    folder = Path("/data") / ("x" * 90)
    assert f"  hvdprof dashboard {folder}\n" in rendered(analysis(run=run(folder)))


@pytest.mark.heavy
def test_only_a_terminal_gets_colours(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(Console, "is_terminal", property(lambda console: True))
    out = io.StringIO()
    TerminalReporter(width=80).render(analysis(), out)
    assert "\x1b[" in out.getvalue()
    monkeypatch.undo()
    out = io.StringIO()
    TerminalReporter(width=80).render(analysis(), out)
    assert "\x1b[" not in out.getvalue()


@pytest.mark.heavy
def test_markup_in_messages_is_shown_as_it_is():
    assert "[bold]nccl[/bold]" in rendered(analysis(warnings=("[bold]nccl[/bold] is missing",)))
