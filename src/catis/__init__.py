"""catis: training-free token reduction for Vision Transformers.

The public names load on first use, so that `catis --help` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from catis.api import applied, apply, remove
    from catis.calibration.calibrating import calibrate
    from catis.described import info
    from catis.errors import UnsupportedModelError
    from catis.health.check import diagnose
    from catis.macs import gmacs
    from catis.pictures.tracing import trace
    from catis.recipes import save_recipe
    from catis.registry import list_methods
    from catis.tuning.tuning import tune

__version__ = "0.1.0.dev0"

__all__ = [
    "UnsupportedModelError", "applied", "apply", "calibrate", "diagnose", "gmacs", "info", "list_methods", "remove",
    "save_recipe", "trace", "tune",
]  # fmt: skip

_HOME = {
    "UnsupportedModelError": "catis.errors",
    "applied": "catis.api",
    "apply": "catis.api",
    "calibrate": "catis.calibration.calibrating",
    "diagnose": "catis.health.check",
    "gmacs": "catis.macs",
    "info": "catis.described",
    "list_methods": "catis.registry",
    "remove": "catis.api",
    "save_recipe": "catis.recipes",
    "trace": "catis.pictures.tracing",
    "tune": "catis.tuning.tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'catis' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
