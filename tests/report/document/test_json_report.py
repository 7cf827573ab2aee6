""""""

import io
import json
import math
import re

import pytest

from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.run import Verdict
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LOSSES, SCALING
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.document.json_report import (
    MOST_ROWS,
    JsonReporter,
    differing_ranks,
    flat_summary,
    json_object,
)
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import (
    NAN,
    analysis,
    cell,
    failed,
    finding,
    full_analysis,
    skipped,
    verdict,
)
from tests.builders.places import DOCS

MANUAL = DOCS / "reference" / "json.md"


def rendered(finished):
    out = io.StringIO()
    JsonReporter().render(finished, out)

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(out.getvalue(), parse_constant=refuse)


def test_keys_of_the_object():
    assert list(rendered(full_analysis())) == [
        "schema_version",
        "verdict",
        "scaling",
        "losses",
        "skipped",
        "failed",
        "findings",
        "files",
        "warnings",
        "warning_notes",
        "tables",
        "row_counts",
        "run",
    ]


@pytest.mark.heavy
def test_other_tables_are_written_out_unless_they_are_long():
    rows = [
        {"pass_id": "a", "segment": "b", "step": step, "end_ns": 2, "dur_ns": 1}
        | {"num_steps": 1, "steady": True}
        for step in range(MOST_ROWS + 1)
    ]
    short, long = JOB_STEPS.frame(rows[:2]), JOB_STEPS.frame(rows)

    assert rendered(analysis(job_steps=short))["tables"] == {"job_steps": rows[:2]}
    assert rendered(analysis(job_steps=short))["row_counts"] == {"job_steps": 2}
    assert rendered(analysis(job_steps=long))["tables"] == {}
    assert rendered(analysis(job_steps=long))["row_counts"] == {"job_steps": MOST_ROWS + 1}


def test_rows_have_exactly_the_declared_columns():
    result = rendered(full_analysis())
    assert {tuple(row) for row in result["scaling"]} == {tuple(SCALING.column_names)}
    assert {tuple(row) for row in result["losses"]} == {tuple(LOSSES.column_names)}
    assert {tuple(row) for row in result["findings"]} == {tuple(FINDINGS.column_names)}


def test_a_finding_without_a_line_has_null_there():
    findings = FINDINGS.frame([finding(line=None)])
    assert rendered(analysis(findings=findings))["findings"][0]["line"] is None


def test_numbers_keep_their_type_and_all_digits():
    row = rendered(analysis([cell(samples_per_s=1 / 3, np=2, oversubscribed=True)]))["scaling"][0]
    assert row["samples_per_s"] == 1 / 3
    assert isinstance(row["np"], int)
    assert row["oversubscribed"] is True


def test_what_is_not_a_number_is_null():
    finished = analysis(
        [cell(efficiency=NAN, blocked_share=math.inf)], verdict=verdict(efficiency=NAN)
    )
    result = rendered(finished)
    assert result["scaling"][0]["efficiency"] is None
    assert result["scaling"][0]["blocked_share"] is None
    assert result["verdict"]["efficiency"] is None


def test_skipped_failed_and_the_run():
    result = rendered(analysis(skipped=(skipped("no"),), failed=(failed(),), warnings=("w",)))
    assert result["skipped"] == [
        {
            "model": "resnet18",
            "np": 1,
            "compression": "fp16",
            "reduction": "average",
            "reason": "no",
            "engine": "horovod",
        }
    ]
    assert result["failed"][0]["lines"][0] == "[1]<stderr>: out of memory"
    assert result["warnings"] == ["w"]
    assert result["run"] == {
        "folder": "runs/20261120-224841-quick",
        "name": "quick",
        "created_at": "2026-11-20T22:48:41+00:00",
        "stop": None,
        "versions": {
            "hvdprof": "0.1.0",
            "python": "3.11.2",
            "torch": "2.13.0",
            "horovod": "0.28.1",
        },
    }


def _documented(heading):
    section = MANUAL.read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `(\w+)` ", section, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("heading", "written"),
    [
        ("The object", lambda result: list(result)),
        ("verdict", lambda result: list(result["verdict"])),
        ("scaling", lambda result: list(result["scaling"][0])),
        ("losses", lambda result: list(result["losses"][0])),
        ("skipped", lambda result: list(result["skipped"][0])),
        ("failed", lambda result: list(result["failed"][0])),
        ("findings", lambda result: list(result["findings"][0])),
        ("run", lambda result: list(result["run"])),
    ],
)
def test_the_manual_names_exactly_the_keys_that_are_written(heading, written):
    assert _documented(heading) == written(json_object(full_analysis()))


def test_verdict_is_written_field_by_field():
    fields = [name for name in Verdict.__dataclass_fields__ if name != "parts"]
    assert list(json_object(analysis())["verdict"]) == [*fields, "caveat"]


def test_caveats_and_warnings_have_codes_beside_their_sentences():
    finished = analysis(verdict=verdict(caveat="Few."), warnings=("w",))
    result = rendered(finished)
    assert result["verdict"]["caveat"] == "Few."
    (caveat,), (warning,) = result["verdict"]["caveats"], result["warning_notes"]
    assert (caveat["code"], caveat["text"]) == ("of-file", "Few.")
    assert (warning["code"], warning["text"]) == ("measurement", "w")


def test_figures_of_cells_are_named_by_model_ranks_engine_and_toggles():
    figures = flat_summary(full_analysis())
    assert all(math.isfinite(value) for value in figures.values())
    assert figures["hvdprof/summary/efficiency"] == verdict().efficiency
    np2, np4 = (f"hvdprof/summary/resnet18/np{size}/horovod" for size in (2, 4))
    assert {f"{np4}/samples_per_second", f"{np2}/fp16/average/step_seconds"} <= set(figures)


def test_what_is_unknown_has_no_key_and_names_are_keys():
    figures = flat_summary(analysis([cell(model="a/b:c", efficiency=math.nan)]))
    own = [key for key in figures if key.startswith("hvdprof/summary/a_b_c/np")]
    assert own
    assert not [key for key in own if key.endswith("/efficiency")]


def test_costs_of_ranks_have_rank_and_phase_and_two_patterns_add_up():
    rows = [
        {"term": "straggler", "ranks": "1", "phase": "data", "pattern": "persistent"},
        {"term": "straggler", "ranks": "1", "phase": "data", "pattern": "periodic"},
        {"term": "input-bound", "ranks": "", "phase": "", "pattern": ""},
    ]
    of_cell = {name: cell()[name] for name in CELL_KEY} | {"time_ns": 2e6, "share": 0.1}
    table = declared_rows(WATERFALL, *(of_cell | row for row in rows))
    found = analysis([cell()], derived={WATERFALL.name: table})
    costs = {
        key.partition("/cost_seconds/")[2]: value
        for key, value in flat_summary(found).items()
        if "/cost_seconds/" in key
    }
    assert costs == pytest.approx({"straggler/rank_1/data": 0.004, "input-bound": 0.002})
    assert (
        differing_ranks(found)
        .splitlines()[0]
        .endswith("straggler: rank 1, data phase, 2.00 ms per step (10 %)")
    )
