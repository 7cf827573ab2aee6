import json
from dataclasses import replace

import pytest
from plotly.utils import PlotlyJSONEncoder

from hvdprof.api import AttachedFiles, AttachedJob, analyze_run, attach, load_run
from hvdprof.dashboards.app import PAGES
from hvdprof.dashboards.components.diagnosis_cards import verdict_band
from hvdprof.dashboards.components.empty_state import unread_files
from hvdprof.dashboards.components.finding_cards import _PAGE_OF, is_of_cell
from hvdprof.dashboards.pages import diagnosis
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.model.file_page import PROFILER_TRACE, FilePage
from hvdprof.model.job_losses import LossCost
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.report.screen.open_points import Band
from hvdprof.report.terminal.report_page import shape_page
from hvdprof.rundir.stopping import Stop, StopReason
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import (
    SENTENCE,
    analysis,
    finding,
    full_analysis,
    manifest,
    pass_record,
    run,
    segment,
)
from tests.builders.flight_dumps import dump, write_dumps
from tests.builders.places import ROOT
from tests.builders.profiler_traces import TracedJob, write_traces
from tests.builders.served_dashboard import measured_run, page_text, shown_text


def shown(tmp_path, finished):
    folder = tmp_path / "quick"
    folder.mkdir(parents=True)
    runs = RunStore([folder], read=lambda _: finished)
    return shown_text(diagnosis.layout(runs, View("/", {"run": "quick"})))


def test_what_the_machine_did_stands_with_the_numbers_and_the_cost_with_the_verdict(tmp_path):
    row = {"pass_id": "p", "segment": "s", "rank": 1, "mean": 4e14, "low": 3.9e14, "high": 4.1e14}
    rows = [row | {"measure": measure} for measure in ("flop_rate", "flop_bf16")]
    cost = LossCost(
        2.5, "GPU", 2, 5.0, 1.0, 0.9, 1.1, "The largest loss costs 1.0 of 5.00 per hour"
    )
    known = full_analysis(derived={RANK_MACHINE.name: declared_rows(RANK_MACHINE, *rows)})
    parts = replace(known.verdict.parts, headline=f"{known.verdict.headline} {cost.sentence}.")
    priced = replace(known.verdict, loss_cost=cost, parts=parts)
    text = shown(tmp_path, replace(known, verdict=priced))
    assert "400 TFLOP/s" in text
    assert cost.sentence in text


@pytest.mark.heavy
def test_it_shows_the_verdict_every_cell_and_what_went_wrong(tmp_path):
    text = shown(tmp_path, full_analysis())
    for expected in (
        SENTENCE.replace(" against torch np=1", "")
        .replace(" (11.3 %).", ".")
        .replace(" (11.3 %).", "."),
        "84.2 ± 2.3 %",
        "57.4 % (52.4 to 60.8)",
        "1,200 ± 110",
        "rank 1 was killed by SIGKILL",
        "Process 1 exit with status code 137.",
        "Adasum needs a power of two ranks",
        "np=4 on 2 cores is oversubscribed",
        "hvdprof bench --preset quick",
        "P2P is off on node1.",
        "Unset NCCL_P2P_DISABLE",
    ):
        assert expected in text


@pytest.mark.heavy
def test_it_says_why_the_measurement_stopped(tmp_path):
    stop = Stop(
        reason=StopReason.BUDGET,
        num_repeats=3,
        most_repeats=6,
        half_width=0.042,
        precision=None,
        budget_s=300.0,
        elapsed_s=300.2,
    )
    stopped = full_analysis(run=run(manifest=manifest(stop=stop)))
    assert "Stopped at 5 min, after 3 repeats: ±4.2 % reached." in shown(tmp_path, stopped)


@pytest.mark.slow
def test_a_finding_leads_to_a_typical_step_and_to_the_page_with_its_numbers(tmp_path):
    text = page_text(diagnosis, measured_run(tmp_path / "run"))
    assert "Show in timeline" in text
    assert "/timeline?run=run&pass=09-np2-trace-r1&from=" in text
    assert "/ranks?run=run&np=2" in text


def test_every_rule_with_a_page_is_one_that_exists():
    rules = (ROOT / "docs/reference/findings.md").read_text(encoding="utf-8")
    assert [rule for rule in _PAGE_OF if f"`{rule}`" not in rules] == []


@pytest.mark.heavy
def test_findings_are_one_line_each_and_only_the_command_is_copied(tmp_path):
    rows = [finding(subject=str(number)) for number in range(12)]
    text = shown(tmp_path, full_analysis(findings=FINDINGS.frame(rows)))
    # The scaling curve alone, of three numbers of ranks.
    assert text.count('"open": true') == 1
    assert "7 more" in text
    assert '"value": "unset NCCL_P2P_DISABLE"' in text
    assert '"value": "Unset NCCL_P2P_DISABLE."' not in text


@pytest.mark.slow
def test_the_waterfall_is_that_of_the_chosen_ranks(tmp_path):
    run = measured_run(tmp_path / "run")
    assert "mnist<br>2 ranks<br>Horovod" in page_text(diagnosis, run)
    assert "mnist<br>1 rank<br>Horovod" in page_text(diagnosis, run, np=1)
    assert "mnist<br>2 ranks<br>fp16" in page_text(diagnosis, run, toggles="fp16")


@pytest.mark.heavy
def test_a_run_that_is_measured_says_how_far_it_is(tmp_path):
    passes = [
        pass_record("01-np1-throughput-r1", [segment("s")], duration_s=30.0),
        pass_record("02-np2-throughput-r1", [segment("s")], status="running"),
        pass_record("03-np2-trace-r1", [segment("s")], status="planned"),
    ]
    measured = run(manifest=manifest(status="running", passes=passes))
    text = shown(tmp_path, full_analysis(run=measured))
    assert "1 of 3 passes ended, now 02-np2-throughput-r1, about 1 min left." in text
    assert "Being measured" not in shown(tmp_path / "x", full_analysis())


@pytest.mark.heavy
@pytest.mark.parametrize("heading", ["Failed", "Skipped: ", "Data quality"])
def test_a_clean_run_has_no_empty_sections(tmp_path, heading):
    assert f'"{heading}"' not in shown(tmp_path, analysis())


@pytest.mark.heavy
def test_a_run_without_results_is_shown(tmp_path):
    assert "nothing is measured" in shown(tmp_path, analysis([]))


def test_every_page_has_a_path_and_a_title_of_its_own():
    assert len({page.PATH for page in PAGES}) == len({page.TITLE for page in PAGES}) == len(PAGES)
    assert PAGES[0].PATH == "/"


@pytest.mark.heavy
def test_findings_on_other_cells_stand_folded_after_those_of_the_chosen_one(tmp_path):
    rows = [
        finding(subject="other", title="Slow resnet", model="resnet18", np=2, engine="horovod"),
        finding(subject="size", title="Slow at 4", model="mnist", np=4, engine="horovod"),
        finding(subject="own", title="Slow mnist", model="mnist", np=2, engine="horovod"),
        finding(subject="run", title="Of the run", model="", np=None, engine=""),
    ]
    findings = FINDINGS.frame(rows)
    cell = {"model": "mnist", "np": 2, "engine": "horovod"}
    assert sorted(findings[is_of_cell(findings, cell)]["title"]) == ["Of the run", "Slow mnist"]
    text = shown(tmp_path, full_analysis(findings=findings))
    heading = text.index("2 findings on other models or numbers of ranks")
    assert text.index("Of the run") < heading
    assert text.index('"Slow resnet"') < heading < text.index('"Slow mnist"')


@pytest.mark.heavy
def test_commands_in_actions_are_code_without_backticks(tmp_path):
    rows = [finding(action="Use `--controller mpi`, then measure.")]
    text = shown(tmp_path, full_analysis(findings=FINDINGS.frame(rows)))
    assert "`" not in text
    assert "--controller mpi" in text


@pytest.mark.heavy
def test_the_heading_of_the_facts_names_the_run_as_the_list_of_runs_does(tmp_path):
    assert "About the run quick" in shown(tmp_path, full_analysis())


def test_the_load_of_the_machine_is_stated_once(tmp_path):
    longer = "Other processes kept cores busy during 2 of 2 passes, up to 1.7 cores in p."
    load = "Other processes kept up to 1.7 of 2 cores busy."
    caveat = Note(NoteCode.OTHER_LOAD, f"{load} Measure again.", value=load)
    finished = full_analysis(warning_notes=(Note(NoteCode.OTHER_LOAD, longer),))
    page = shape_page(replace(finished, verdict=replace(finished.verdict, caveats=(caveat,))))
    assert page.warnings == ()
    assert page.caveat == f"{longer} Measure again."


@pytest.mark.heavy
def test_attached_files_alone_have_no_tiles_and_figures_of_throughput(tmp_path):
    dumps = {rank: dump(enqueued=6 - rank, completed=5, late_ns=rank) for rank in range(2)}
    given = AttachedFiles(recordings=[write_dumps(tmp_path / "dumps", dumps)])
    attach(tmp_path / "run", given, AttachedJob(name="mine"))
    text = shown(tmp_path, analyze_run(load_run(tmp_path / "run")))
    assert "Hang: rank 1 has not submitted" in text
    assert "hang begins with ranks" in text
    for empty in ("Potential efficiency", "All numbers", "Why a step takes longer"):
        assert empty not in text


def test_files_that_are_left_out_have_their_reason():
    reason = "a.json and b.json are both traces of rank 0."
    files = [
        FilePage("a.json", f"{PROFILER_TRACE} of rank 0 of 2", 9, (), (), left_out=reason),
        FilePage("b.json", f"{PROFILER_TRACE} of rank 0 of 2", 9, (), (), left_out=reason),
        FilePage("notes.txt", "text", 9, (), ()),
    ]
    text = shown_text(unread_files(files))
    assert text.count(reason) == 1
    assert "1 file (notes.txt) holds nothing that hvdprof reads." in text


@pytest.mark.heavy
def test_traces_of_another_tool_have_no_cards_without_content(tmp_path):
    text = page_text(diagnosis, write_traces(tmp_path, TracedJob())[0])
    assert "per step" in text
    for empty in ("No efficiency was measured", "Every cause with its interval", "No cell has a"):
        assert empty not in text
    assert '"children": "-"' not in text.split("All numbers")[0]


def test_no_line_of_the_verdict_ends_between_a_number_and_its_unit():
    texts = ("Rank 1 is late.", "Costs 30.4 ms, 81.7 % of the step.")
    band = Band(*texts, "Trust good", "", "good", "good", "")
    card = json.dumps(verdict_band(band, (), None), cls=PlotlyJSONEncoder, ensure_ascii=False)
    assert "Costs 30.4\N{NO-BREAK SPACE}ms, 81.7\N{NO-BREAK SPACE}% of the step." in card


def test_nothing_is_called_free_of_findings_before_it_is_measured(tmp_path):
    assert "No finding: nothing is measured." in shown(tmp_path, analysis([]))
