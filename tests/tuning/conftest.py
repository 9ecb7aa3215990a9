import pytest
import torch

from catis import zoo

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
