"""Batches of images on their way through the blocks, for the reduced model and for the vanilla one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from catis.calibration.blocks import Entrance
from catis.calibration.targets import group_means
from catis.calibration.views import View
from catis.core.state import TokenState


class Vanilla(NamedTuple):
    """What a block as it was makes of vanilla tokens."""

    projected: Mapping[nn.Module, Tensor]  # what the layers that read the features give
    residual: Tensor  # (B, N, C) tokens after attention
    output: Tensor  # (B, N, C) tokens after the block
    full: Vanilla | None = None  # the same at the model's own input size, where the reduction feeds a smaller image

    def of(self, images: slice) -> Vanilla:
        """The same of some images of the batch."""
        projected = {layer: given[images] for layer, given in self.projected.items()}
        full = None if self.full is None else self.full.of(images)
        return Vanilla(projected, self.residual[images], self.output[images], full)


class Place(NamedTuple):
    """A batch of images between two blocks."""

    tokens: Tensor  # (B, N, C) reduced tokens
    state: TokenState  # their companions
    shares: Tensor | None = None  # (B, patches at the start) what each patch is of its token; None while they are alike


@dataclass
class Stream:
    """One batch of images on its way through the blocks."""

    held_out: bool  # whether it chooses penalties and accepts blocks, instead of being fitted
    tokens: Tensor  # (B, N, C) reduced tokens that enter the block
    state: TokenState  # their companions
    vanilla: Tensor  # (B, patches and prefix, C) tokens of the vanilla model at the same place
    # (B, N, C) what the tokens should be after the part of the block that is being fitted.
    target: Tensor = field(default_factory=lambda: torch.empty(0))
    # Tokens of the vanilla model at its own input size, where the reduction feeds a smaller image: the prefix follows
    # these, the patches have no counterpart there. None where the sizes are the same.
    full: Tensor | None = None
    # Images of the batch before that these are, corrupted; None if they are not.
    copies: slice | None = None
    shares: Tensor | None = None  # (B, patches at the start) what each patch is of its token; None while they are alike

    @classmethod
    def copied(cls, view: View, entrance: Entrance, before: Stream) -> Stream:
        """Corrupted images before the first block; the vanilla model has seen them whole in the batch before."""
        full = None if before.full is None else before.full[view.copies]
        seen = entrance.tokens, entrance.state, before.vanilla[view.copies]
        return cls(view.held_out, *seen, full=full, copies=view.copies)

    @property
    def corrupted(self) -> bool:
        """Whether the vanilla model saw the images before they were corrupted."""
        return self.copies is not None

    @property
    def differs(self) -> bool:
        """Whether the tokens are others than vanilla's by now."""
        return self.full is not None or self.corrupted or self.tokens.shape != self.vanilla.shape

    @property
    def place(self) -> Place:
        """Where the batch is."""
        return Place(self.tokens, self.state, self.shares)

    @place.setter
    def place(self, place: Place) -> None:
        self.tokens, self.state, self.shares = place

    def first(self) -> Stream:
        """The first image of the batch alone, and no more of its state than attention needs to run."""
        positions = self.state.positions
        own = positions if positions is None or positions.ndim == 2 else positions[:1]
        state = TokenState(self.state.num_prefix, positions=own)
        return replace(self, tokens=self.tokens[:1], state=state, target=self.target[:1])

    def vanilla_end(self) -> tuple[Tensor, TokenState]:
        """Tokens of the vanilla model after the last block, at its own input size, and what goes with them."""
        tokens = self.vanilla if self.full is None else self.full
        prefix = self.state.num_prefix
        return tokens, TokenState.start(prefix, tokens.shape[1] - prefix, len(tokens), track=True, device=tokens.device)

    def wanted(self, vanilla: Tensor, full: Tensor | None, restore_norm: bool = False) -> Tensor:
        """(B, N, C) targets from vanilla tokens, and from those of the full input size for the prefix."""
        present = self.tokens.shape[1] - self.state.num_prefix
        means = group_means(vanilla, self.state, present, self.shares, restore_norm)
        if full is None:
            return means
        prefix = self.state.num_prefix
        return torch.cat([full[:, :prefix], means[:, prefix:]], 1)
