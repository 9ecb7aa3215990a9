"""Models by name, as every command takes them: timm's, the zoo's and transformers', with which weights."""

from catis.hosts.hf_loading import is_hf_model
from catis.models.by_name import build_model, is_zoo_model, load_model

__all__ = ["build_model", "is_hf_model", "is_zoo_model", "load_model"]
