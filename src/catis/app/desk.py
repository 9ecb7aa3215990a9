"""What the page does with a user's input, without the page: answers as data, HTML or ZIP, mistakes as sentences."""

from __future__ import annotations

import base64
import io
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from catis import hosts
from catis.app import views
from catis.app.answering import Answer, Settings, answer
from catis.app.choices import Choices, Named
from catis.app.onnx_model import OnnxModel
from catis.app.photos import Photo
from catis.app.tabs import diagnosed, diagnosis_view
from catis.errors import CatisError, is_out_of_memory
from catis.pictures.drawing import Look
from catis.pictures.formats import as_png, as_svg, png_bytes
from catis.recipes import write_recipe

DROP = "Drop a photo, or take one of the examples."
README = (
    "figure.png, figure.svg: what was on the page. catis_recipe.json: the reduction, for catis.apply(model, recipe=...)"
    " and --recipe of every command. again.py makes the figure again from input.png.\n"
)


@dataclass(frozen=True)
class Shown:
    """What stands on the page after an answer; all empty but `said` if there is none."""

    said: str  # a sentence for the user; empty if all is well
    answer: Answer | None = None  # kept for the block slider and the download
    numbers: str = ""  # HTML, and so are the others
    classes: str = ""  # without and with reduction
    patches: str = ""  # after the chosen block
    signals: str = ""  # in the chosen block
    depth: str = ""  # all blocks


class Desk:
    """Answers for all users of the page; keeps nothing of any of them."""

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


def python_lines(named: Named, caption: str = "") -> str:
    """A script that makes the figure again from the files beside it: imports, and three lines.

    Example:
        >>> print(python_lines(Named("tiny-12")).splitlines()[5])
        catis.trace(model, catis.hosts.find(model).preprocessing().normalise([photo])).save("again.png", caption='')
    """
    return (
        "import catis, catis.hosts, numpy\nfrom catis.models import load_model\nfrom PIL import Image\n"
        f'model = catis.apply({named.python}, recipe="catis_recipe.json")\n'
        'photo = numpy.asarray(Image.open("input.png"))\n'
        "catis.trace(model, catis.hosts.find(model).preprocessing().normalise([photo]))"
        f'.save("again.png", caption={caption!r})\n'
    )


def zipped(answer: Answer, named: Named) -> bytes:
    """A ZIP file of all of it."""
    if answer.traced is None or answer.recipe is None:
        raise ValueError("There is no figure to download: only an exported file was run, without its model.")
    canvas = answer.traced.canvas(look=Look(caption=answer.change))
    files: dict[str, bytes] = {
        "README.txt": README.encode(),
        "figure.png": as_png(canvas),
        "figure.svg": as_svg(canvas, answer.change or "patch tokens kept, merged and evicted"),
        "again.py": python_lines(named, answer.change).encode(),
        "input.png": png_bytes(Image.fromarray(answer.pixels)),
    }
    with tempfile.TemporaryDirectory() as folder:
        write_recipe(answer.recipe, folder)
        files |= {file.name: file.read_bytes() for file in Path(folder).iterdir()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(name, content)
    return packed.getvalue()
