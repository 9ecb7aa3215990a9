"""Settings shared by all tests: one thread, so that parallel test workers do not fight over two cores."""

import os

# Some virtual machines announce AMX and then refuse it (SIGILL in any bfloat16 linear layer); oneDNN reads this once.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch.utils.flop_counter import flop_registry

from tests.browser import MISSING, find_chromium

settings.register_profile("catis", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("catis")

# FlopCounterMode of PyTorch before 2.15 leaves out attention on CPU.
_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention
flop_registry.setdefault(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu, flop_registry[_ATTENTION])


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def chromium():
    """A browser; tests that need one are skipped where there is none, and the last lines say so."""
    found = find_chromium()
    if found is None:
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def pytest_terminal_summary(terminalreporter) -> None:
    """A browser that is missing is told loudly, not as one letter among thousands."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if MISSING in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{MISSING}: {len(skipped)} tests skipped", red=True, bold=True)
