"""What Python and notebooks get of an analysis, and the examples of the public names."""

import dataclasses
import doctest
import html
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import hvdprof
from hvdprof import api
from hvdprof.api.analysis import Analysis
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.report.shown_result import shown
from tests.builders.finished_comparison import comparison
from tests.builders.finished_forecast import finished_forecast
from tests.builders.finished_tuning import tuning
from tests.builders.places import ROOT
from tests.builders.recorded_runs import unpacked

STARTS_RANKS = {"measure", "resume", "FunctionRunner", "HorovodRunner"}
"""Names whose examples train on real ranks."""

NO_EXAMPLE = {"BenchOptions", "RunOptions", "PredictOptions"}
"""Declared options, which the examples of other names use."""

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with two runs and tables of speeds."""
    folder = tmp_path_factory.mktemp("examples")
    for name, run in (("example", "ddp-trainer-slow-data"), ("sweep", "horovod-sweep")):
        unpacked(run, folder / "packed").rename(_made(folder / "runs") / name)
    (folder / "rates.csv").write_text("ranks,samples/s\n1,100\n2,190\n4,360\n")
    (folder / "faster.csv").write_text("ranks,samples/s\n1,100\n2,195\n4,370\n")
    return folder


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def examples_of(name: str) -> list[doctest.DocTest]:
    """The examples in the docstring of a name, and of the methods of the analysis."""
    finder = doctest.DocTestFinder(recurse=inspect.isclass(getattr(api, name)))
    names = {one: getattr(api, one) for one in api.__all__}
    found = finder.find(getattr(api, name), name, globs=names)
    return [one for one in found if one.examples]


def run_examples(tests: list[doctest.DocTest], **names: object) -> None:
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for test in tests:
        test.globs.update(names)
        failed = runner.run(test).failed
        assert not failed, test.name


@pytest.mark.parametrize("name", sorted({*api.__all__} - STARTS_RANKS - NO_EXAMPLE))
def test_the_example_of_a_public_name_is_true(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    examples = examples_of(name)
    assert examples
    run_examples(examples)
    Path("report.html").unlink(missing_ok=True)


def test_the_methods_of_an_analysis_have_examples(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    examples = doctest.DocTestFinder().find(
        Analysis, "Analysis", globs={"analyze_run": api.analyze_run}
    )
    examples = [one for one in examples if one.examples]
    assert len(examples) == 2
    run_examples(examples)


@pytest.mark.horovod
@pytest.mark.warm
def test_the_examples_that_start_ranks_are_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def train() -> int:
        import horovod.torch as hvd
        import torch

        hvd.init()
        model = torch.nn.Linear(8, 2)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1),
            named_parameters=model.named_parameters(),
        )
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
        return int(hvd.rank())

    for name in ("measure", "resume", "FunctionRunner", "HorovodRunner"):
        examples = examples_of(name)
        assert examples
        run_examples(examples, train=train)


def test_there_are_few_public_names_and_the_package_has_them() -> None:
    assert len(dir(hvdprof)) <= 25
    assert {"__version__", "HvdprofError", *api.__all__} == {*dir(hvdprof)}
    assert hvdprof.load_run is api.load_run
    with pytest.raises(AttributeError, match="no attribute 'load_runs'"):
        hvdprof.__getattr__("load_runs")
    declared = (ROOT / "hvdprof" / "__init__.pyi").read_text()
    names = [line.split()[0] for line in declared.splitlines() if line.startswith("    ")]
    assert names == sorted(api.__all__)
    assert "HvdprofError as HvdprofError" in declared


def test_the_keys_of_a_summary_are_documented_and_stay(folder: Path) -> None:
    page = (ROOT / "docs" / "howto" / "python.md").read_text()
    for run in ("example", "sweep"):
        summary = api.analyze_run(folder / "runs" / run).summary()
        assert len(summary) <= 40
        assert not [key for key in summary if f"`{key}`" not in page]
        # Plain numbers and texts alone: what every log of experiments takes.
        assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_a_summary_has_the_numbers_of_the_tables(folder: Path) -> None:
    analysis = api.analyze_run(folder / "runs" / "example")
    summary = analysis.summary()
    (late,) = analysis.waterfall[analysis.waterfall["term"] == "straggler"].to_dict("records")
    assert summary["straggler_cost_ms"] == pytest.approx(late["time_ns"] / 1e6)
    assert summary["largest_loss_share"] == pytest.approx(late["share"])
    (cell,) = analysis.scaling.to_dict("records")
    assert summary["samples_per_s"] == pytest.approx(cell["samples_per_s"])
    assert summary["efficiency"] is None
    assert summary["num_findings"] == len(analysis.findings)


def test_an_analysis_prints_its_verdict_and_shows_the_first_screen(folder: Path) -> None:
    analysis = api.analyze_run(folder / "runs" / "sweep")
    first, second = str(analysis).splitlines()
    assert first == analysis.verdict.sentence
    assert second == f"Caveat: {analysis.verdict.caveat}"
    assert repr(analysis) == f"<Analysis of sweep: {analysis.verdict.headline}>"
    page = analysis._repr_html_()
    assert "Horovod&#x27;s cycle" in page
    assert "<small>Scaling efficiency</small>" in page
    # The waterfall, drawn without a script.
    assert "<svg" in page
    assert "<script" not in page
    with pytest.raises(UsageError, match="No figure is named 'pie'"):
        analysis.figure("pie")


@pytest.mark.parametrize(
    ("made", "kind", "words"),
    [
        (comparison, "Comparison of", "What differs"),
        (finished_forecast, "Forecast", "64"),
        (tuning, "Tuning", "Present setting"),
    ],
)
def test_results_show_their_verdict_and_in_a_notebook_their_page(made, kind, words) -> None:
    result = made()
    one = shown(result)
    assert isinstance(one, type(result))
    verdict = str(one).splitlines()[0]
    assert verdict
    assert repr(one).startswith(f"<{kind}")
    page = one._repr_html_()
    assert html.escape(verdict) in page
    assert "<table>" in page
    assert words in page
    assert dataclasses.asdict(one).keys() == dataclasses.asdict(result).keys()


def test_the_public_functions_return_results_that_show_themselves(folder: Path) -> None:
    found: Any = api.compare(folder / "rates.csv", folder / "faster.csv")
    assert found.sentence in found._repr_html_().replace("&#x27;", "'")
    assert repr(found).startswith("<Comparison of ")


def test_the_help_of_the_package_leads_to_functions_that_exist() -> None:
    names = [line.split()[0] for line in hvdprof.__doc__.splitlines() if line.startswith("    ")]
    assert len(names) == 10
    assert set(names) < set(api.__all__)


def test_a_file_that_is_no_run_directory_is_not_a_run_without_results(folder: Path) -> None:
    with pytest.raises(UnreadableInputError, match="is no run directory") as caught:
        api.analyze_run(folder / "rates.csv")
    assert "analyze_files" in caught.value.hint
