import pytest
import torch
from PIL import Image

from catis import zoo
from catis.zoo.dataset import dataset

torch.set_num_threads(1)


def views(n):
    clean = next(zoo.dataset("clean", n=n).batches(n))[0]
    damaged = next(zoo.dataset("corrupted", n=n, corruption="gaussian_noise", severity=5).batches(n))[0]
    return clean, damaged


@pytest.fixture(scope="session")
def pair():
    """Eight images and the same ones under noise."""
    return views(8)


@pytest.fixture(scope="session")
def model():
    return zoo.load("tiny-6")


@pytest.fixture(scope="session")
def images():
    """48 pictures of the embedded set, as the zoo's models want them."""
    return torch.cat([batch for batch, _ in dataset("clean", "val", n=48).batches(48)])


@pytest.fixture(scope="session")
def folder_of_photos(tmp_path_factory):
    """24 of them as files."""
    folder, shown = tmp_path_factory.mktemp("photos"), dataset("clean", "val", n=24)
    for index in range(24):
        Image.fromarray(shown[index][0]).save(folder / f"{index}.png")
    return folder


@pytest.fixture(scope="module")
def little_work():
    """The work ends before the clock does, also on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("catis.tuning.allowance.RATE", 0.25)
        yield


@pytest.fixture
def quick(little_work):
    """What keeps a tuning short: the fewest levers, and work for a second."""
    return {"minutes": 1.5, "without": ["calibration", "size", "operator", "theta", "weights"]}
