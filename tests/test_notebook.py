"""The notebook of the examples runs from top to bottom, in a kernel of its own, and its results draw themselves."""

import os
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "skewed_job.ipynb"


def test_the_notebook_is_stored_without_results():
    cells = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    assert cells
    assert not any(cell.outputs or cell.execution_count for cell in cells)


@pytest.mark.slow
@pytest.mark.spark
def test_the_notebook_runs(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))
    drawn = [
        output.data["text/html"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]
    # A diagnosis, a plan, two balances, the balance of a watch, schemes, a simulation.
    assert len(drawn) == 7
    assert not any("<script" in html for html in drawn)
    assert sum("<svg" in html for html in drawn) >= 6
    printed = [o.text for c in notebook.cells if c.cell_type == "code" for o in c.outputs if o.output_type == "stream"]
    assert any("applyInPandas: " in text for text in printed)
    assert any("keyspread: " in text for text in printed)
    if "KEYSPREAD_NOTEBOOK" in os.environ:  # to look at it
        nbformat.write(notebook, os.environ["KEYSPREAD_NOTEBOOK"])
