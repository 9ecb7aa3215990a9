"""`catis gmacs`: what a model costs before and after reduction, from shapes alone."""

from __future__ import annotations

from rich.console import Console

from catis.cli.arguments import (
    AmountOrNone,
    Budget,
    ImageSize,
    MethodName,
    ModelKwargs,
    ModelName,
    Options,
    given_amount,
    model_settings,
    parse_options,
)

__all__ = ["gmacs_command"]


def gmacs_command(
    model: ModelName,
    r: AmountOrNone = None,
    budget: Budget = None,
    method: MethodName = "catis",
    option: Options = None,
    img_size: ImageSize = None,
    model_kwargs: ModelKwargs = None,
) -> None:
    """Count multiply-adds, vanilla and reduced. No weights are made, so models of any size are quick.

    Example: catis gmacs vit_small_patch16_224 --budget 0.5
    """
    schedule, options = given_amount(r, budget), parse_options(option)
    if schedule is None:
        raise ValueError("how many tokens go? Give -r 13, or a share of the multiply-adds: --budget 0.5")

    from catis.core.reduction import Reduction
    from catis.macs import compare_macs
    from catis.models import build_model

    reduction = Reduction.of(method, schedule, **options)
    cost = compare_macs(build_model(model, device="meta", **model_settings(model_kwargs, img_size)), reduction)
    say = Console(highlight=False, soft_wrap=True).print
    say(f"{model}, {cost.patches} patches + {cost.prefix} prefix tokens, {reduction}")
    say(f"vanilla   {cost.vanilla:10.2f} GMACs")
    say(f"reduced   {cost.reduced:10.2f} GMACs, {cost.reduced / cost.vanilla:.1%} of vanilla")
    say(f"matching  {cost.overhead:10.2f} GMACs on top, for choosing tokens")
    say(f"patch tokens after each block: {' '.join(map(str, cost.tokens))}")
