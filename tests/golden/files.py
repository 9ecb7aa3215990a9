"""Reads golden files: arrays as tensors, parameters as a dict."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from catis.core.execute import execute
from catis.core.method import Method
from catis.core.plan import Plan
from catis.core.state import TokenState
from catis.core.view import BlockView
from catis.native.accelerator import Compiled

DATA = Path(__file__).parent / "data"
COMPILED: Compiled | None = None
"""The compiled functions, while a test's form is "compiled"; then they, and nothing else, must do the work."""


@dataclass
class Golden:
    params: dict
    arrays: dict[str, Tensor]
    dtype: torch.dtype

    def __getitem__(self, key: str) -> Tensor:
        value = self.arrays[key]
        return value.to(self.dtype) if value.is_floating_point() else value

    def get(self, key: str) -> Tensor | None:
        return self[key] if key in self.arrays else None

    def check(self, ours: Tensor, key: str) -> None:
        tolerance = 1e-9 if self.dtype == torch.float64 else 1e-5
        torch.testing.assert_close(ours, self[key], rtol=tolerance, atol=tolerance, check_dtype=False)


def load(name: str, dtype: torch.dtype) -> Golden:
    raw = np.load(DATA / f"{name}.npz", allow_pickle=False)
    arrays = {key: torch.from_numpy(raw[key]) for key in raw.files if key != "params"}
    return Golden(json.loads(str(raw["params"])), arrays, dtype)


def cases(*patterns: str) -> list[str]:
    return sorted({path.stem for pattern in patterns for path in DATA.glob(f"{pattern}.npz")})


def block_view(metric: Tensor, r: int, prefix: int, block: int = 0, depth: int = 12, size=None, **other) -> BlockView:
    """A view whose head-averaged keys are `metric` (B, N, C)."""
    key = metric[:, None]
    fields = {"features": metric, "residual": metric, "query": key, "key": key, "content_key": key} | other
    return BlockView(
        block=block,
        depth=depth,
        r=r,
        num_prefix=prefix,
        has_cls=prefix > 0,
        scale=1.0,
        size=size,
        **fields,
    )


def decide(method: Method, view: BlockView) -> Plan:
    """The method's plan, by the compiled functions where they are asked for."""
    if COMPILED is None:
        return method.plan(view)
    plan = COMPILED.decide(method, view)
    assert plan is not None, "the compiled functions did not decide"
    return plan


def run(plan: Plan, x: Tensor, state: TokenState) -> tuple[Tensor, TokenState]:
    """The plan executed, by the compiled functions where they are asked for and know its blend."""
    if COMPILED is None:
        return execute(plan, x, state)
    assert (COMPILED.execute(plan, x, state) is None) == (plan.blend in ("max", "mlerp_dst"))
    return execute(plan, x, state, COMPILED)


def start(x: Tensor, prefix: int, size: Tensor | None = None) -> TokenState:
    state = TokenState.start(prefix, x.shape[1] - prefix, x.shape[0], track=True)
    sizes = None if size is None else size[:, prefix:, 0].float()
    return TokenState(prefix, sizes, provenance=state.provenance)


def source_matrix(state: TokenState, kept: int) -> Tensor:
    """(B, N', N) 0/1 matrix of the references, from our provenance."""
    prefix = state.num_prefix
    batch, patches = state.provenance.shape
    matrix = torch.zeros(batch, prefix + kept, prefix + patches, dtype=torch.uint8)
    for token in range(prefix):
        matrix[:, token, token] = 1
    index = torch.arange(patches)
    for image in range(batch):
        here = state.provenance[image] >= 0
        matrix[image, state.provenance[image][here] + prefix, index[here] + prefix] = 1
    return matrix
