"""Settings shared by all tests: one thread, so that parallel test workers do not fight over two cores."""

import os

# Some virtual machines announce AMX and then refuse it (SIGILL in any bfloat16 linear layer); oneDNN reads this once.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile("catis", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("catis")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
