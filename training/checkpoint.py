"""Training state as safetensors: no pickle, and a stop in the middle of a write loses nothing."""

from __future__ import annotations

from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer


def save_state(path: Path, model: nn.Module, opts: list[Optimizer], step: int, seconds: float) -> None:
    """Write model and optimiser tensors beside the target, then rename over it."""
    tensors: dict[str, Tensor] = {k: v.detach().contiguous() for k, v in model.state_dict().items()}
    for o, opt in enumerate(opts):
        for i, slots in opt.state_dict()["state"].items():
            tensors |= {f"opt.{o}.{i}.{k}": v.detach().contiguous() for k, v in slots.items()}
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, metadata={"step": str(step), "seconds": f"{seconds:.1f}"})
    partial.replace(path)


def load_state(path: Path, model: nn.Module, opts: list[Optimizer]) -> tuple[int, float]:
    """Restore in place; returns the step and the seconds of training so far."""
    tensors = load_file(path)
    model.load_state_dict({k: v for k, v in tensors.items() if not k.startswith("opt.")})
    for o, opt in enumerate(opts):
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith(f"opt.{o}."):
                _, _, i, slot = key.split(".")
                state.setdefault(int(i), {})[slot] = value
        opt.load_state_dict({"state": state, "param_groups": opt.state_dict()["param_groups"]})
    with safe_open(path, framework="pt") as file:
        meta = file.metadata()
    return int(meta["step"]), float(meta["seconds"])
