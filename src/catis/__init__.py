"""catis: training-free token reduction for Vision Transformers."""

from catis.api import applied, apply, remove
from catis.errors import UnsupportedModelError
from catis.macs import gmacs
from catis.recipe import save_recipe
from catis.registry import list_methods
from catis.trace import trace

__version__ = "0.1.0.dev0"

__all__ = ["UnsupportedModelError", "applied", "apply", "gmacs", "list_methods", "remove", "save_recipe", "trace"]
