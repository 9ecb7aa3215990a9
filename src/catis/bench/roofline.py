"""The roofline: a model's matrix products alone, on its own shapes. No implementation can be faster than that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.bench.timing import Step
from catis.core.reduction import Reduction
from catis.hosts.cost import ModelCost


class BlockFlow(NamedTuple):
    """Tokens of one block, prefix included."""

    entering: int  # those that enter it; they have keys and values
    querying: int  # those that have a query and an output; all that enter, but for a last block for the head alone
    leaving: int  # those that reach its MLP


Flow = tuple[BlockFlow, ...]
"""Tokens of every block."""


def token_flow(cost: ModelCost, num_prefix: int, reduction: Reduction | None) -> Flow:
    """How many tokens each block works on, under a reduction or none."""
    patches, flow, depth = cost.num_patches, [], len(cost.blocks)
    for r in [0] * depth if reduction is None else reduction.amounts(depth, patches, num_prefix):
        flow.append(BlockFlow(patches + num_prefix, patches + num_prefix, patches - r + num_prefix))
        patches -= r
    if reduction is not None and reduction.head_only:
        flow[-1] = BlockFlow(patches + num_prefix, num_prefix, num_prefix)
    return tuple(flow)


class Roofline:
    """Patch embedding, q k v, attention, output and MLP of every block as bare products, with weights of their own.

    Every block has its own random weights, as in a model, so that they are read from memory as often. Attention is the
    fused kernel, without a bias. Left out: norms, activations, residual sums, the classifier, and all of the matching.

    Example:
        >>> import timm, catis
        >>> from catis import hosts
        >>> roofline = Roofline(hosts.find(timm.create_model("test_vit")).cost())
        >>> roofline.step(token_flow(roofline.cost, 1, None), batch=2)()
    """

    def __init__(self, cost: ModelCost, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> None:
        self.cost, self._dtype, self._device = cost, dtype, device
        self._embed = self._weights([(cost.embed_weights // cost.blocks[0].width, cost.blocks[0].width)])
        self._attention = [self._weights(block.attention_layers) for block in cost.blocks]
        self._mlp = [self._weights(block.mlp_layers) for block in cost.blocks]

    def step(self, flow: Flow, batch: int) -> Step:
        """The products of one pass of a batch, as a step to time."""
        operands = self._operands(flow, batch)

        def step() -> None:
            with torch.no_grad():
                for operand in operands:
                    kernel: Any = F.linear if len(operand) == 2 else F.scaled_dot_product_attention
                    kernel(*operand)

        return step

    def macs(self, flow: Flow) -> int:
        """Multiply-adds of these products for one image: what `catis.gmacs` counts, less classifier and pool."""
        products = self._operands(flow, 1)
        linear = (rows.shape[0] * others[0].numel() for rows, *others in products if len(others) == 1)
        attention = (2 * query.numel() * others[0].shape[2] for query, *others in products if len(others) == 2)
        return sum(linear) + sum(attention)

    def _operands(self, flow: Flow, batch: int) -> list[tuple[Tensor, ...]]:
        """(rows, weights) of linear layers and (query, key, value) of attentions; one buffer serves as all input."""
        numbers = self._random((max(self._most(flow, batch)),))

        def linear(rows: int, weights: Iterable[Tensor]) -> list[tuple[Tensor, ...]]:
            return [(numbers[: rows * weight.shape[1]].view(rows, weight.shape[1]), weight) for weight in weights]

        work = linear(batch * self.cost.num_patches, self._embed)
        for index, (entering, querying, leaving) in enumerate(flow):
            if querying == entering:
                work += linear(batch * entering, self._attention[index])
            else:
                of_all, of_queries = self._apart(index)
                work += linear(batch * entering, [of_all]) + linear(batch * querying, [of_queries])
            query, key, value = self._heads(index, entering, batch, numbers)
            work.append((query[:, :, :querying], key, value))
            work += linear(batch * leaving, self._mlp[index])
        return work

    def _apart(self, index: int) -> tuple[Tensor, Tensor]:
        """Weights of keys and values, and all others of the attention, as two matrices."""
        block = self.cost.blocks[index]
        others = block.attention_weights - block.key_value_weights
        first, second = self._weights(
            (block.width, count // block.width) for count in (block.key_value_weights, others)
        )
        return first, second

    def _weights(self, shapes: Iterable[tuple[int, int]]) -> list[Tensor]:
        return [self._random((outputs, inputs)) for inputs, outputs in shapes]

    def _random(self, shape: tuple[int, ...]) -> Tensor:
        return torch.empty(shape, dtype=self._dtype, device=self._device).normal_(std=0.02)

    def _most(self, flow: Flow, batch: int) -> Iterable[int]:
        """Numbers that the largest operands take."""
        yield batch * self.cost.num_patches * self._embed[0].shape[1]
        for index, (entering, _, _) in enumerate(flow):
            block = self.cost.blocks[index]
            yield 3 * batch * entering * block.num_heads * block.head_dim
            widest = max(weights.shape[1] for weights in (*self._attention[index], *self._mlp[index]))
            yield batch * entering * widest

    def _heads(self, index: int, tokens: int, batch: int, numbers: Tensor) -> tuple[Tensor, ...]:
        """Query, key and value (B, H, N, d), strided as a joint projection leaves them."""
        block = self.cost.blocks[index]
        count = 3 * batch * tokens * block.num_heads * block.head_dim
        joint = numbers[:count].view(batch, tokens, 3, block.num_heads, block.head_dim)
        return joint.permute(2, 0, 3, 1, 4).unbind(0)


def attention_step(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, fused: bool) -> Step:
    """Attention of one block, (B, H, N, d) each, as a step to time: the fused kernel, or the map written out."""

    def step() -> Tensor:
        with torch.no_grad():
            if fused:
                return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
            logits = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-2, -1))
            return torch.matmul((logits if bias is None else logits + bias).softmax(-1), value)

    return step
