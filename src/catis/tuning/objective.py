"""What the search minimises: how far a reduced model's answers are from vanilla's, on fixed images in a fixed order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from catis import hosts
from catis.calibration.answers import distances
from catis.calibration.views import both_views
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.diagnostics.estimates import wilson
from catis.errors import CatisError
from catis.hosts.correction import Correction
from catis.tuning.teacher import Teacher, answer_to

FEWEST = 20
"""Images below which there is nothing left to choose and judge with."""
CHOOSE, JUDGE = 0.2, 0.15
"""Shares of the images that accept what was found, and that only judge it."""


@dataclass(frozen=True)
class Split:
    """The images of a tuning, in an order that depends on the seed alone."""

    fit: Tensor  # (n, 3, H, W) prepared images that are searched and calibrated on
    choose: Tensor  # those that accept or reject what was found
    judge: Tensor  # those that are looked at once, at the end

    @classmethod
    def of(cls, images: Tensor, seed: int) -> Split:
        """Split images at random.

        Raises:
            CatisError: There are too few.

        Example:
            >>> made = Split.of(torch.zeros(20, 3, 8, 8), seed=0)
            >>> len(made.fit), len(made.choose), len(made.judge)
            (13, 4, 3)
        """
        if len(images) < FEWEST:
            raise CatisError(f"{len(images)} images: tuning needs at least {FEWEST}, and some hundreds to do well")
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
        choose, judge = round(CHOOSE * len(images)), round(JUDGE * len(images))
        parts = torch.split(order, [len(images) - choose - judge, choose, judge])
        return cls(*(images[part] for part in parts))


def fingerprint(images: Tensor) -> str:
    """A short hash of prepared images, for recipes and for resuming."""
    return hashlib.blake2b(images.numpy().tobytes(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Judgement:
    """What held-out images say of a reduced model."""

    distance: float  # mean KL(vanilla || reduced) of the logits, or 1 - cosine of features
    agreement: float | None  # share of the images whose class stayed; None without logits
    low: float | None  # lower end of its 95 % interval
    high: float | None  # upper end
    n: int  # images


class Objective:
    """Compares a model under any reduction with the vanilla one on views of some images.

    Args:
        model: A supported model, in eval mode; left as it is.
        images: (n, 3, H, W) prepared images.
        preprocessing: How they were prepared.
        batch_size: Images per batch.
        seed: Of the corrupted views.
        damaged: Whether corrupted views are looked at besides the clean ones.
        restored: Whether vanilla answers to corrupted views as to the images before, as calibration aims at.
        sizes: Input sizes over which vanilla's answers are averaged, None for the model's own.

    Attributes:
        handicaps: By input size, how much nearer a candidate must be there than at the model's own.
        moved: By input size, how far vanilla's answers to clean images are from those at its own.
    """

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        preprocessing: Preprocessing,
        *,
        batch_size: int = 32,
        seed: int = 0,
        damaged: bool = True,
        restored: bool = False,
        sizes: Sequence[int | None] = (None,),
    ) -> None:
        self.handle = hosts.find(model)
        pairs = (
            _in_turn(images, preprocessing, batch_size, seed)
            if damaged
            else [(batch, batch) for batch in torch.split(images, batch_size)]
        )
        self._batches = [seen for _, seen in pairs]
        self._corrupted = torch.cat([(whole != seen).flatten(1).any(1) for whole, seen in pairs])
        with torch.inference_mode():
            shown = [whole if restored else seen for whole, seen in pairs]
            teacher = Teacher.of(self.handle, shown, ~self._corrupted, sizes)
        self._answers = [(answer, teacher.are_logits) for answer in teacher.answers]
        self._own = teacher.own
        self.handicaps = dict(zip(sizes, teacher.handicaps, strict=True))
        self.moved = dict(zip(sizes, teacher.moved, strict=True))
        self.counts = [len(batch) for batch in self._batches]

    def distance(self, reduction: Reduction, views: int | None = None, correction: Correction | None = None) -> float:
        """Mean distance from vanilla over about the first `views` views, or over all."""
        apart = [
            distances(vanilla, reduced, are_logits)
            for (vanilla, are_logits), reduced in self._both(reduction, views, correction)
        ]
        return float(torch.cat(apart).mean())

    def clean(self, reduction: Reduction, correction: Correction | None = None) -> float:
        """Mean distance of the clean views: calibrated weights leave vanilla's answers to corrupted ones on purpose."""
        return float(self._apart(reduction, correction)[~self._corrupted].mean())

    def from_own_size(self, reduction: Reduction) -> float:
        """Mean distance of the clean views from what vanilla says at its own input size."""
        reduced = torch.cat([reduced for _, reduced in self._both(reduction, None, None)])
        return float(distances(self._own, reduced, self._answers[0][1])[~self._corrupted].mean())

    def balanced(self, reduction: Reduction, correction: Correction | None = None) -> float:
        """Geometric mean of the mean distances of clean and of corrupted views, so that neither outvotes the other."""
        apart = self._apart(reduction, correction)
        kinds = [own for own in (apart[~self._corrupted], apart[self._corrupted]) if len(own)]
        return float(torch.stack([own.mean().clamp_min(1e-9).log() for own in kinds]).mean().exp())

    def _apart(self, reduction: Reduction, correction: Correction | None) -> Tensor:
        """(views,) distances."""
        pairs = self._both(reduction, None, correction)
        return torch.cat([distances(vanilla, reduced, are_logits) for (vanilla, are_logits), reduced in pairs])

    def judge(self, reduction: Reduction, correction: Correction | None = None) -> Judgement:
        """Distance and agreement over all views."""
        apart, same = [], []
        for (vanilla, are_logits), reduced in self._both(reduction, None, correction):
            apart.append(distances(vanilla, reduced, are_logits))
            same.append(vanilla.argmax(-1) == reduced.argmax(-1))
        distance, n = float(torch.cat(apart).mean()), sum(self.counts)
        if not self._answers[0][1]:
            return Judgement(distance, None, None, None, n)
        kept = int(torch.cat(same).sum())
        low, high = (percent / 100 for percent in wilson(kept, n))
        return Judgement(distance, kept / n, low, high, n)

    def used(self, views: int | None) -> int:
        """Views that `distance` really looks at: whole batches."""
        if views is None:
            return sum(self.counts)
        total = 0
        for count in self.counts:
            total += count
            if total >= views:
                break
        return total

    def _both(
        self, reduction: Reduction, views: int | None, correction: Correction | None
    ) -> list[tuple[tuple[Tensor, bool], Tensor]]:
        with self.handle.installed(reduction, correction), torch.inference_mode():
            return self._compare(views)

    def _compare(self, views: int | None) -> list[tuple[tuple[Tensor, bool], Tensor]]:
        pairs, seen = [], 0
        for batch, answer in zip(self._batches, self._answers, strict=True):
            pairs.append((answer, answer_to(self.handle, batch)[0]))
            seen += len(batch)
            if views is not None and seen >= views:
                break
        return pairs


def _in_turn(images: Tensor, preprocessing: Preprocessing, batch_size: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Batches of views, two clean ones and a corrupted one in turn, so that any number from the front has both.

    Of each, the images before they were corrupted, and as they are seen.
    """
    clean, damaged = both_views(images, preprocessing, seed)
    place = torch.cat([torch.arange(len(clean[0])), 2 * torch.arange(len(damaged[0])) + 1.5]).argsort()
    whole, seen = (torch.cat(pair)[place] for pair in zip(clean, damaged, strict=True))
    return list(zip(torch.split(whole, batch_size), torch.split(seen, batch_size), strict=True))
