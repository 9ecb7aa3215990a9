"""`catis.calibrate`: a reduced model gets the calibrated weights of its reduction, in place."""

from __future__ import annotations

import copy
import warnings
from typing import TypeVar

from torch import nn

from catis import hosts
from catis.calibration.answers import check_answers
from catis.calibration.run import Progress, calibrated_weights
from catis.calibration.views import ImagesLike, prepared_images, views
from catis.data.preprocessing import Preprocessing

ModelT = TypeVar("ModelT", bound=nn.Module)


def calibrate(
    model: ModelT,
    images: ImagesLike,
    *,
    limit: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
    preprocessing: Preprocessing | None = None,
    progress: Progress | None = None,
) -> ModelT:
    """Fit a reduced model's weights to its reduction, in closed form: no labels, no gradients, no training.

    Block after block, the linear layers learn to give merged tokens the mean of what the vanilla model gives their
    members (ridge regression towards the old weights, solved in float64). A quarter of the images is held out: it
    chooses the penalties, and a block is changed only as far as the model's answers on these come closer to vanilla's.
    Half of the images are also seen flipped and corrupted, and fitted to what vanilla makes of them before corruption,
    so that it holds under shift.

    The weights are put on as `catis.apply` puts on those of a recipe: `catis.remove` gives the old ones back bit for
    bit, `catis.save_recipe` writes them. If anything goes wrong the model is left as it was.

    Args:
        model: A model under `catis.apply`.
        images: Unlabelled images: a folder, prepared images (n, 3, H, W) or batches of them (a DataLoader will do, its
            labels are not looked at), or uint8 (H, W, 3) arrays. Some hundreds do well.
        limit: Use this many of them.
        batch_size: Images per batch. Memory grows with the number of images, by the tokens that enter one block.
        seed: Of the noise on corrupted views.
        preprocessing: How to prepare a folder or arrays; by default as the model wants it.
        progress: Called with (done, total) after each block.

    Returns:
        The same model, for chaining.

    Raises:
        ValueError: The model is not reduced, or has layers that cannot be calibrated, or these are no images.
        CatisError: Too few images, or the model's answers are not finite.

    Example:
        >>> import catis, torch
        >>> from catis import zoo
        >>> model = catis.apply(zoo.load("tiny-6"), "tome", r=12)
        >>> images = torch.randn(16, 3, 96, 96)
        >>> catis.hosts.find(catis.calibrate(model, images)).correction is not None
        True
    """
    handle = hosts.find(model)
    check_answers(handle)
    reduction = handle.reduction
    if reduction is None or reduction.is_vanilla:
        kind = type(model).__name__
        raise ValueError(f"{kind} is not reduced, so there is nothing to calibrate: call catis.apply(model, ...) first")
    wanted = preprocessing or handle.preprocessing()
    said: list[str] = []
    batches = views(prepared_images(model, images, wanted, limit, said), wanted, batch_size, seed)
    for sentence in said:
        warnings.warn(sentence, stacklevel=2)
    vanilla = copy.deepcopy(model)
    hosts.find(vanilla).uninstall()
    outcome = calibrated_weights(vanilla, reduction, batches, progress=progress)
    if outcome.weights:
        handle.install(reduction, handle.correction_of(outcome.weights))
    return model
