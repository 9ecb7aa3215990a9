"""What the page does with a user's input, without the page: every answer is data and HTML, every mistake a sentence."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from catis import hosts
from catis.app import views
from catis.app.answering import Answer, Settings, answer
from catis.app.choices import Choices
from catis.app.downloads import zipped
from catis.app.onnx_model import OnnxModel
from catis.app.photos import Photo
from catis.app.tabs import diagnosed, diagnosis_view
from catis.errors import CatisError, is_out_of_memory

DROP = "Drop a photo, or take one of the examples."


@dataclass(frozen=True)
class Shown:
    """What stands on the page after an answer; all empty but `said` if there is none.

    Attributes:
        said: A sentence for the user; empty if all is well.
        answer: Kept for the block slider and the download.
        numbers: HTML, and so are the others.
        classes: Without and with reduction.
        patches: After the chosen block.
        signals: In the chosen block.
        depth: All blocks.
    """

    said: str
    answer: Answer | None = None
    numbers: str = ""
    classes: str = ""
    patches: str = ""
    signals: str = ""
    depth: str = ""


class Desk:
    """Answers for all users of the page; keeps nothing of any of them.

    Args:
        choices: Models and recipes.
        examples: Images to diagnose on.
    """

    def __init__(self, choices: Choices, examples: Sequence[Path]) -> None:
        self.choices, self.examples = choices, examples
        self._one_at_a_time = ThreadPoolExecutor(1, "catis-app")  # times of two answers at once would be of neither

    def blocks(self, model: str) -> int:
        """Blocks of a model, 1 for an exported file alone."""
        chosen = self.choices.models[model]
        if isinstance(chosen, OnnxModel):
            twin = self.choices.twin(chosen)
            return 1 if twin is None else self.blocks(twin)
        return hosts.find(chosen).facts.depth

    def respond(self, photo: Photo | None, model: str, way: str, budget: float, block: int) -> Shown:
        """Everything for one image under one choice."""
        if photo is None:
            return Shown(views.sentence(DROP))
        try:
            answered = self._one_at_a_time.submit(answer, self.choices, photo, Settings(model, way, budget)).result()
        except (CatisError, ValueError, OSError, MemoryError, RuntimeError) as error:
            return Shown(views.sentence(_told(error), "bad"))
        numbers, classes, depth = views.numbers_view(answered), views.classes_view(answered), views.depth_view(answered)
        return Shown("", answered, numbers, classes, *self.at_block(answered, block), depth)

    def at_block(self, answered: Answer | None, block: int) -> tuple[str, str]:
        """Patches and signals at a block; nothing without an answer."""
        return (
            ("", "") if answered is None else (views.patches_view(answered, block), views.signals_view(answered, block))
        )

    def download(self, answered: Answer | None) -> tuple[str, str]:
        """A ZIP file in base64, and what is to be said; one of the two is empty."""
        if answered is None:
            return "", views.sentence(DROP, "bad")
        named = self.choices.named[answered.settings.model]
        model = self.choices.models[answered.settings.model]
        twin = self.choices.twin(model) if isinstance(model, OnnxModel) else None
        try:
            content = zipped(answered, named if twin is None else self.choices.named[twin])
        except ValueError as error:
            return "", views.sentence(str(error), "bad")
        return base64.b64encode(content).decode(), ""

    def diagnose(self, model: str, way: str, budget: float, progress: Callable[[int, int], None] | None = None) -> str:
        """The diagnosis of the chosen model on the example images."""
        try:
            diagnosis = diagnosed(self.choices, Settings(model, way, budget), self.examples, progress)
        except (CatisError, ValueError, OSError, MemoryError, RuntimeError) as error:
            return views.sentence(_told(error), "bad")
        return diagnosis_view(diagnosis)


def _told(error: BaseException) -> str:
    """The sentence of an error that the user can mend; what nobody foresaw is raised again, for the terminal."""
    if is_out_of_memory(error):
        return "There is not enough memory for this model here."
    if isinstance(error, RuntimeError):
        raise error
    return str(error) or type(error).__name__
