import shlex
from dataclasses import replace

from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.scaling_tables import SCALING
from hvdprof.report.terminal.report_page import shape_page
from tests.builders.finished_analysis import cell, failed, full_analysis


def test_a_failure_says_where_its_rank_ran():
    analysis = replace(full_analysis(), failed=(failed(host="node2"), failed(rank=None)))

    first, second = shape_page(analysis).failed
    assert first.text.endswith("; rank 1 ran on node2")
    assert second.text.endswith("): rank 1 was killed by SIGKILL")


def test_cells_that_failed_alike_are_one_failure():
    alike = tuple(
        failed(pass_id=f"0{number}-np2", rank=rank, reason=f"rank {rank} {what}", lines=lines)
        for number, rank, what, lines in (
            (1, 0, "raised it", ("a", "E: b")),
            (2, 1, "raised it", ("E: b",)),
            (3, 1, "hung", ("E: b",)),
        )
    )
    first, second = shape_page(replace(full_analysis(), failed=alike)).failed
    assert "(01-np2, 02-np2): rank 0 raised it" in first.text
    assert first.lines == ("a", "E: b")
    assert "(03-np2): rank 1 hung" in second.text


def test_a_failure_that_the_verdict_says_is_not_said_again():
    analysis = replace(full_analysis(), failed=(failed(rank=None),))
    note = Note(NoteCode.FAILED, "1 measurement failed and excluded.")
    reason = analysis.failed[0].reason
    verdict = replace(analysis.verdict, sentence=f"Nothing was measured: {reason}.")
    page = shape_page(replace(analysis, verdict=verdict, warning_notes=(note,)))

    (only,) = page.failed
    assert only.text.endswith(")")
    assert only.lines == analysis.failed[0].lines[-12:]
    assert page.warnings == ()


def test_a_command_with_a_folder_of_any_name_can_be_copied(tmp_path):
    analysis = full_analysis()
    run = replace(analysis.run, folder=tmp_path / "my run; $(x)")
    (command, _), *_ = shape_page(replace(analysis, run=run)).next_commands
    assert shlex.split(command)[:2] == ["hvdprof", "dashboard"]
    assert shlex.split(command)[2].endswith("my run; $(x)")


def test_a_report_needs_no_working_directory(tmp_path, monkeypatch):
    analysis = full_analysis()
    run = replace(analysis.run, folder=tmp_path / "run")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    (command, _), *_ = shape_page(replace(analysis, run=run)).next_commands
    assert shlex.split(command)[2] == str(tmp_path / "run")


def test_cells_that_refer_to_nothing_say_so():
    analysis = full_analysis()
    scaling = SCALING.frame([cell(baseline="", compression="fp16", efficiency=float("nan"))])
    (table,) = shape_page(replace(analysis, scaling=scaling)).tables
    assert table.caption.endswith("rank and step, no baseline without toggles")
