"""What it costs that hooks fire: nothing while nobody listens, eager and compiled.

    python benchmarks/hooks.py
    python benchmarks/hooks.py --model vit_small_patch16_224 --batch 1 8 --repeats 99

"nobody" is a reduced model as it is; "deaf" is the same model while catis asks no module whether it has hooks; "heard"
has a forward hook on every block. Each pair runs in rounds of its own, interleaved, so a ratio is the median over
rounds of the first one's time over the other's in the same round. Compiled, "nobody" must be "deaf", as the graphs in
`tests/hosts/test_hooks.py` are, so its ratio is what the clock can tell apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import timm
import torch

import catis
from catis.bench.settings import Precision
from catis.bench.timing import Step, paired_ratio, time_rounds
from catis.bench.variants import forward_step, shared_copy

QUESTIONS = ("catis.hosts.hooks.is_hooked", "catis.hosts.hooks.has_hooks", "catis.hosts.timm_parts.is_hooked")


def no(module: torch.nn.Module) -> bool:
    return False


@contextmanager
def deaf() -> Iterator[None]:
    """Nobody is asked."""
    patches = [mock.patch(name, no) for name in QUESTIONS]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def steps(name: str, batch: int, r: int, compiled: bool) -> dict[str, Step]:
    model = timm.create_model(name).eval()
    images = torch.randn(batch, *model.pretrained_cfg["input_size"])
    models = {key: catis.apply(shared_copy(model), "catis", r=r) for key in ("nobody", "deaf", "heard")}
    for block in models["heard"].blocks:
        block.register_forward_hook(lambda module, inputs, output: None)
    if compiled:
        torch._dynamo.reset()
        for reduced in models.values():
            reduced.compile(fullgraph=True)
    run = {key: forward_step(reduced, images, Precision()) for key, reduced in models.items()}

    def without_asking() -> object:
        with deaf():
            return run["deaf"]()

    return {**run, "deaf": without_asking}


def rows(name: str, batch: int, r: int, compiled: bool, repeats: int) -> list[str]:
    run = steps(name, batch, r, compiled)
    lines = []
    for key, other in (("nobody", "deaf"), ("heard", "nobody")):
        seconds = time_rounds({key: run[key], other: run[other]}, repeats).seconds
        ratio = paired_ratio(seconds[key], seconds[other])
        how = "compiled" if compiled else "eager"
        quartiles = f"{ratio.low:.3f}-{ratio.high:.3f}"
        lines.append(f"| {name} | {batch} | {r} | {how} | {key} / {other} | {ratio.median:.3f} ({quartiles}) |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="vit_tiny_patch16_224", help="a timm name")
    parser.add_argument("--batch", type=int, nargs="*", default=[1])
    parser.add_argument("-r", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=99)
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, float32, {arguments.repeats} rounds")
    print("| model | batch | r | run | times | median (quartiles) |\n|---|---|---|---|---|---|")
    for batch in arguments.batch:
        for compiled in (False, True):
            print("\n".join(rows(arguments.model, batch, arguments.r, compiled, arguments.repeats)), flush=True)


if __name__ == "__main__":
    main()
