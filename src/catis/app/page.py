"""The layout of the page, in Gradio: which component stands where, and what calls what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from catis.app.desk import Desk
from catis.app.photos import Photo
from catis.app.style import INTRODUCTION, SAVE_FILE

LOWEST, HIGHEST, USUAL = 0.2, 1.0, 0.6
FORGET = 3600
"""Seconds after which a user who left is forgotten: the answer, and the uploaded file."""


def _as_file(payload: Any) -> Photo | None:
    """The uploaded file, unread: Gradio's own reading would answer a broken one with "Error", not with a sentence."""
    return None if payload is None or payload.path is None else Photo(Path(payload.path))


def build_page(desk: Desk, examples: Sequence[Path], curves: str) -> gr.Blocks:
    """The page, not yet served."""
    with gr.Blocks(title="catis", analytics_enabled=False, delete_cache=(FORGET, FORGET)) as page:
        gr.HTML(INTRODUCTION)
        with gr.Row():
            with gr.Column(scale=1, min_width=300):
                inputs = _inputs(desk, examples)
            with gr.Column(scale=2, min_width=320):
                _tabs(page, desk, inputs, curves)
    return page


def _inputs(desk: Desk, examples: Sequence[Path]) -> list[Any]:
    """Image, model, method and budget, as a user chooses them."""
    models = list(desk.choices.models)
    first = str(examples[0]) if examples else None
    photo = gr.Image(
        first, type="filepath", sources=["upload", "clipboard"], label="Image", height=260, elem_id="photo",
        buttons=[], alt_text="the image to look at",
    )  # fmt: skip
    photo.preprocess = _as_file
    if examples:
        gr.Examples([[str(path)] for path in examples[:8]], photo, label="Examples", cache_examples=False)
    model = gr.Dropdown(models, value=models[0], label="Model", elem_id="model", filterable=False)
    ways = desk.choices.ways(models[0])
    way = gr.Dropdown(ways, value=ways[0], label="Method or recipe", elem_id="way", filterable=False)
    budget = gr.Slider(
        LOWEST, HIGHEST, USUAL, step=0.01, label="Budget: share of the multiply-adds", elem_id="budget", buttons=[],
        info="A recipe has a budget of its own.",
    )  # fmt: skip
    return [photo, model, way, budget]


def _tabs(page: gr.Blocks, desk: Desk, inputs: list[Any], curves: str) -> None:
    with gr.Tab("One image"):
        _image_tab(page, desk, inputs)
    with gr.Tab("Accuracy"):
        gr.HTML(curves, elem_id="curves")
    with gr.Tab("Diagnosis"):
        _diagnosis_tab(desk, inputs)


def _image_tab(page: gr.Blocks, desk: Desk, inputs: list[Any]) -> None:
    kept = gr.State(None, time_to_live=FORGET)
    said, numbers = gr.HTML(elem_id="said"), gr.HTML(elem_id="numbers")
    block = gr.Slider(
        1, desk.blocks(inputs[1].value), value=desk.blocks(inputs[1].value), step=1, label="After block",
        elem_id="block", buttons=[],
    )  # fmt: skip
    with gr.Tabs():
        with gr.Tab("Patches"):
            patches = gr.HTML(elem_id="patches")
        with gr.Tab("What the method went by"):
            signals = gr.HTML(elem_id="signals")
        with gr.Tab("All blocks"):
            depth = gr.HTML(elem_id="depth")
    classes = gr.HTML(elem_id="classes")
    shown = [said, kept, numbers, classes, patches, signals, depth]
    _answering(page, desk, [*inputs, block], shown)
    block.input(
        lambda answer, number: list(desk.at_block(answer, number)), [kept, block], [patches, signals],
        trigger_mode="always_last", show_progress="hidden", api_visibility="private",
    )  # fmt: skip
    _download(desk, kept, said)


def _answering(page: gr.Blocks, desk: Desk, inputs: list[Any], shown: list[Any]) -> None:
    """Answer whenever something changes. A slider that is dragged waits for one answer and then asks for the last."""
    photo, model, way, budget, block = inputs
    once = {
        "trigger_mode": "always_last", "concurrency_limit": 1, "concurrency_id": "answer", "show_progress": "hidden",
        "api_visibility": "private",
    }  # fmt: skip

    def respond(*given: Any) -> list[Any]:
        shown = desk.respond(*given)
        return [shown.said, shown.answer, shown.numbers, shown.classes, shown.patches, shown.signals, shown.depth]

    def choose(name: str) -> tuple[Any, Any]:
        ways, depth = desk.choices.ways(name), desk.blocks(name)
        return gr.update(choices=ways, value=ways[0]), gr.update(maximum=depth, value=depth)

    gr.on([page.load, photo.change, way.input, budget.input], respond, inputs, shown, **once)
    chosen = model.input(choose, model, [way, block], show_progress="hidden", api_visibility="private")
    chosen.then(respond, inputs, shown, **once)


def _download(desk: Desk, kept: Any, said: Any) -> None:
    """The file goes through the page itself: nothing of it is ever on the server's disk."""
    button = gr.Button("Download figure, recipe and Python", elem_id="download")
    packed = gr.Textbox(visible="hidden", elem_id="packed")
    made = button.click(
        lambda answer: list(desk.download(answer)), kept, [packed, said], show_progress="minimal",
        api_visibility="private",
    )  # fmt: skip
    made.then(None, packed, None, js=SAVE_FILE)


def _diagnosis_tab(desk: Desk, inputs: list[Any]) -> None:
    gr.HTML(
        f"<p>On {len(desk.examples)} example images, without labels. How to read it: "
        "<code>catis diagnose --help</code>.</p>"
    )
    button, shown = gr.Button("Diagnose this model", elem_id="diagnose"), gr.HTML(elem_id="diagnosis")

    def diagnose(model: str, way: str, budget: float, progress: Any = gr.Progress()) -> str:  # noqa: B008
        return desk.diagnose(model, way, budget, lambda done, total: progress((done, total), unit="images"))

    button.click(
        diagnose, inputs[1:], shown, concurrency_limit=1, concurrency_id="diagnose", trigger_mode="once",
        api_visibility="private",
    )  # fmt: skip
