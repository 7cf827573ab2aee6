"""The notebook of the manual runs from top to bottom, on real ranks."""

import json

import pytest

from tests.builders.places import DOCS
from tests.builders.recorded_runs import unpacked

NOTEBOOK = DOCS / "howto" / "notebook.ipynb"

pytestmark = [pytest.mark.horovod, pytest.mark.torch]


def test_every_cell_runs_and_results_show_themselves(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="nbclient and ipykernel are not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient and ipykernel are not installed")
    pytest.importorskip("ipykernel", reason="nbclient and ipykernel are not installed")
    unpacked("ddp-trainer-slow-data", tmp_path / "packed")
    (tmp_path / "runs").mkdir()
    (tmp_path / "packed" / "ddp-trainer-slow-data").rename(tmp_path / "runs" / "example")

    client = nbclient.NotebookClient(
        nbformat.read(NOTEBOOK, as_version=4),
        timeout=300,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    notebook = client.execute()

    first, numbers, measured, ranks = (
        cell.outputs for cell in notebook.cells if cell.cell_type == "code"
    )
    assert "<svg" in first[-1].data["text/html"]
    assert "Straggler" in numbers[-1].data["text/plain"]
    assert "<small>" in measured[-1].data["text/html"]
    assert ranks[-1].data["text/plain"] == "2"


def test_the_repository_holds_the_notebook_without_outputs():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [cell["outputs"] for cell in cells if cell["cell_type"] == "code"] == [[]] * 4
