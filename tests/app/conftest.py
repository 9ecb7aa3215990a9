"""Two small models, a photo, and the page served on a free port of loopback, for all tests of `catis app`."""

import socket
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from catis import zoo
from catis.app.choices import Choices, Named, load_choices


@pytest.fixture(scope="session")
def choices() -> Choices:
    return load_choices([Named("tiny-6"), Named("tiny-12")])


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """Photos of four classes, larger than the models' input."""
    folder = tmp_path_factory.mktemp("photos")
    for pixels, label in zoo.dataset("clean", split="test", n=4):
        Image.fromarray(np.kron(pixels, np.ones((3, 3, 1), np.uint8))).save(folder / f"{label}.png")
    return folder


@pytest.fixture(scope="session")
def photos(folder) -> list[Path]:
    return sorted(folder.iterdir())


@pytest.fixture(scope="session")
def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
