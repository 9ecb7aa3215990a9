"""`catis gmacs`: what a model costs before and after reduction, from shapes alone."""

from __future__ import annotations

from rich.console import Console

from catis.cli import arguments as shared


def gmacs_command(
    model: shared.ModelName,
    r: shared.AmountOrNone = None,
    budget: shared.Budget = None,
    method: shared.MethodName = None,
    option: shared.Options = None,
    img_size: shared.ImageSize = None,
    model_kwargs: shared.ModelKwargs = None,
) -> None:
    """Count multiply-adds, vanilla and reduced. No weights are made, so models of any size are quick.

    Example: catis gmacs vit_small_patch16_224 --budget 0.5
    """
    schedule, options = shared.given_amount(r, budget), shared.parse_options(option)
    if schedule is None:
        raise ValueError("how many tokens go? Give -r 13, or a share of the multiply-adds: --budget 0.5")

    from catis.api import wanted_reduction
    from catis.macs import compare_macs
    from catis.models import build_model

    reduction = wanted_reduction(method, r=schedule, **options)
    cost = compare_macs(build_model(model, device="meta", **shared.model_settings(model_kwargs, img_size)), reduction)
    say = Console(highlight=False, soft_wrap=True).print
    say(f"{model}, {cost.patches} patches + {cost.prefix} prefix tokens, {reduction}")
    say(f"vanilla   {cost.vanilla:10.2f} GMACs")
    say(f"reduced   {cost.reduced:10.2f} GMACs, {cost.reduced / cost.vanilla:.1%} of vanilla")
    say(f"matching  {cost.overhead:10.2f} GMACs on top, for choosing tokens")
    say(f"patch tokens after each block: {' '.join(map(str, cost.tokens))}")
