"""What the page gives away: the figure, the recipe, and the lines of Python that make the figure again."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

from PIL import Image

from catis.app.answering import Answer
from catis.app.choices import Named
from catis.pictures.drawing import Look
from catis.pictures.formats import as_png, as_svg, png_bytes
from catis.recipes import write_recipe

README = (
    "figure.png, figure.svg: what was on the page. catis_recipe.json: the reduction, for catis.apply(model, recipe=...)"
    " and --recipe of every command. again.py makes the figure again from input.png.\n"
)


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
    """A ZIP file of all of it.

    Raises:
        ValueError: There is no figure: only an exported file was run, or one of a vanilla model.
    """
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
