"""The notebook in examples/ runs top to bottom, offline, and shows what it promises."""

import os
from pathlib import Path

import pytest

import catis

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOK = Path(__file__).parent.parent / "examples" / "quickstart.ipynb"


def test_quickstart_runs(tmp_path, monkeypatch):
    source = str(Path(catis.__file__).parent.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=240, startup_timeout=240, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pages = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert any("<svg" in page and "largest group" in page for page in pages)
    assert any("<ul><li>" in page for page in pages)  # the diagnosis
    assert any("image/png" in output.get("data", {}) for output in outputs)
    said = "".join(output.get("text", "") for output in outputs)
    assert "36 of 144 patch tokens left" in said


def test_the_notebook_is_stored_without_outputs():
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs for cell in cells if cell.cell_type == "code")
