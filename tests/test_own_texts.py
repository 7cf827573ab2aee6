"""Facts are fields: what takes own titles, sentences or actions apart again is a fault.

Text of others, such as logs, paths, options and names of columns, has to be parsed; each such
module is listed with what it reads. A new place fails here: give the fact a field, or the reason.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.builders.places import ROOT

FOLDERS = (
    "hvdprof/report",
    "hvdprof/figures",
    "hvdprof/analyze/verdict",
    "hvdprof/analyze/findings",
    "hvdprof/launch/diagnose",
    "hvdprof/launch/run",
    "hvdprof/api",
    "dashboards",
)
CUTS = {"partition", "rpartition", "removeprefix", "removesuffix", "startswith", "endswith"}
CUTS |= {"split", "rsplit"}

_ADDRESS = "the address of a page"
_COLUMN = "the name of a column or of a rule"
_NUMBER = "the sign of a number"
_BASELINE = "SCALING.baseline, `torch np=1`"
_DRAWN = "any text, to draw it"
_PASS = "the id of a pass"
_WORDS = "words of a command line"
_LOG = "lines of logs and timelines of others"

ALLOWED = {
    "hvdprof/report/chakra_trace.py": (2, "types of Chakra's schema"),
    "hvdprof/report/chrome/collective_trace.py": (1, _LOG),
    "hvdprof/report/answers/comparison_formats.py": (1, _COLUMN),
    "hvdprof/report/ci_formats.py": (1, _DRAWN),
    "hvdprof/report/document/section_markdown.py": (4, _DRAWN),
    "hvdprof/report/document/templated.py": (1, _DRAWN),
    "hvdprof/report/sections/forecast_texts.py": (1, _WORDS),
    "hvdprof/report/formats.py": (3, "the name of a file"),
    "hvdprof/report/document/figure_file.py": (1, "what a browser prints"),
    "hvdprof/report/screen/open_points.py": (2, _WORDS + "; " + _NUMBER),
    "hvdprof/report/finding_texts.py": (3, "verdicts on files and notes are running texts"),
    "hvdprof/report/table_query.py": (5, "a file of the kernel; messages of DuckDB"),
    "hvdprof/report/terminal/report_page.py": (1, "a time of the manifest"),
    "hvdprof/report/terminal/run_facts.py": (1, "a time of the manifest"),
    "hvdprof/report/terminal/table_section.py": (5, _COLUMN),
    "hvdprof/figures/nccl_graph.py": (1, _LOG),
    "hvdprof/figures/scaling_curve.py": (3, _BASELINE),
    "hvdprof/figures/palette.py": (1, _DRAWN),
    "hvdprof/figures/timeline/event_details.py": (1, _PASS),
    "hvdprof/figures/timeline/timeline_lanes.py": (1, _LOG),
    "hvdprof/figures/timeline/timeline_rows.py": (3, "what a user writes, and " + _LOG),
    "hvdprof/analyze/verdict/limits.py": (1, _WORDS),
    "hvdprof/analyze/verdict/failures.py": (1, _DRAWN),
    "hvdprof/analyze/verdict/largest_loss.py": (2, _NUMBER),
    "hvdprof/analyze/verdict/run_verdict.py": (1, _BASELINE),
    "hvdprof/analyze/findings/log_rules/collective_timeout_rule.py": (1, _LOG),
    "hvdprof/analyze/findings/log_rules/ranks_behind_rule.py": (1, _LOG),
    "hvdprof/analyze/findings/nccl_rules/nccl_network_rules.py": (1, _LOG),
    "hvdprof/launch/diagnose/printed_errors.py": (9, _LOG),
    "hvdprof/launch/diagnose/rank_progress.py": (
        5,
        "lines and names of recorder files, printed lines",
    ),
    "hvdprof/launch/diagnose/failure_evidence.py": (1, _LOG),
    "hvdprof/launch/run/attempts.py": (1, _PASS),
    "hvdprof/launch/run/kubernetes_run.py": (1, _WORDS),
    "hvdprof/launch/run/repeats.py": (3, _PASS),
    "hvdprof/launch/run/run_folder.py": (1, "the name of a file"),
    "hvdprof/launch/run/script_command.py": (10, _WORDS),
    "hvdprof/launch/run/script_launcher.py": (2, "names of modules that a script imports"),
    "hvdprof/launch/run/script_run.py": (1, _WORDS),
    "hvdprof/launch/run/turn_socket.py": (1, "messages of a socket, a line each"),
    "hvdprof/api/cached_analysis.py": (1, "names of environment variables"),
    "hvdprof/api/measurement.py": (1, _DRAWN),
    "hvdprof/api/prediction.py": (1, "numbers that a user wrote"),
    "hvdprof/api/tuning/settings_by_turns.py": (1, "the name of a file"),
    "hvdprof/api/tuning/candidates.py": (6, _WORDS),
    "dashboards/access.py": (1, "the name of a host"),
    "dashboards/components/diagnosis_cards.py": (1, _DRAWN),
    "dashboards/components/finding_cards.py": (1, _COLUMN),
    "dashboards/components/view_control.py": (1, _ADDRESS),
    "dashboards/components/run_outcome.py": (1, _ADDRESS),
    "dashboards/components/term_link.py": (4, "terms of the glossary, options of commands"),
    "dashboards/bounded_server.py": (1, "a header of HTTP"),
    "dashboards/run_rows.py": (1, _ADDRESS),
    "dashboards/pages/nccl.py": (1, _COLUMN),
    "dashboards/components/run_folds.py": (1, _WORDS),
    "dashboards/view.py": (6, _ADDRESS),
}
"""By module: how many places parse text, and which text."""


def _cuts(source: str) -> Iterator[str]:
    """What takes text apart: regular expressions, cuts at words, `" words " in text`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, name = ast.unparse(node.func.value), node.func.attr
            if name in CUTS or (owner == "re" and name != "escape"):
                yield ast.unparse(node)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            wanted = ast.literal_eval(node.left) if isinstance(node.left, ast.Constant) else ""
            if isinstance(wanted, str) and " " in wanted:
                yield ast.unparse(node)


@pytest.mark.heavy
def test_no_own_text_is_taken_apart():
    found = {
        str(path.relative_to(ROOT)): list(_cuts(path.read_text(encoding="utf-8")))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    allowed = {module: number for module, (number, _) in ALLOWED.items()}
    assert {module: len(cuts) for module, cuts in found.items() if cuts} == allowed


def test_each_way_to_take_a_text_apart_is_seen():
    source = """
_END = re.compile("[.] ")
head, _, rest = title.partition(": ")
is_load = "Other processes" in note
kind = name in names
pattern = re.escape(name)
"""
    assert len(list(_cuts(source))) == 3
