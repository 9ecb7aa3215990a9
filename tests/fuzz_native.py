"""Calls the compiled functions with everything that could break them; run it by tests/sanitize.sh.

A call may decide, say "not mine", or raise an error that says what is wrong. Whatever it does, it must not read or
write where it should not, which is for the sanitizers to see; and a plan that it makes must hold every token once.
"""

import argparse
import os
import random
import threading
import warnings
from dataclasses import replace

import torch
from torch import Tensor

from catis.core.plan import Plan
from catis.core.state import TokenState
from catis.core.view import BlockView
from catis.native.accelerator import Compiled
from catis.native.library import Kernels, load
from catis.registry import create_method

METHODS = [
    ("tome", {}),
    ("tofu", {}),
    ("pitome", {}),
    ("pitome", {"order": "mae", "margin": -3.0}),
    ("mctf", {}),
    ("mctf", {"tau_sim": 0.0, "tau_info": 1e-3, "bidirectional": False}),
    ("catis", {}),
    ("catis", {"tau": 0.0, "evict_ratio": 1.0, "l_start": 0}),
    ("catis", {"tau": 1e30, "gamma": 1e30, "signal": "cls", "l_start": 0}),
]
BLENDS = ("size", "mean", "weight", "mlerp")
REFUSALS = (TypeError, ValueError, IndexError, OverflowError, MemoryError)
NUMBERS = (0, 1, -1, 7, 2**31, -(2**40), 2**70, 1.5, float("nan"), float("inf"), None, "three")


class Recorder:
    """The compiled module; keeps the arguments of the last call of each function."""

    def __init__(self, module) -> None:
        self.module, self.calls = module, {}

    def __getattr__(self, name):
        function = getattr(self.module, name)
        if name in ("use", "openmp"):
            return function

        def record(*arguments, **fields):
            self.calls[name] = arguments, fields
            return function(*arguments, **fields)

        return record


def fill(values: Tensor, dice: random.Random) -> Tensor:
    """Numbers of a nasty kind, put into a tensor of random ones."""
    kind = dice.choice(["normal", "normal", "zero", "ties", "nan", "inf", "denormal", "huge", "spots"])
    if kind == "zero":
        values.zero_()
    elif kind == "ties":
        values.sign_()
    elif kind in ("nan", "inf"):
        values.fill_(float(kind))
    elif kind == "denormal":
        values.mul_(1e-41)
    elif kind == "huge":
        values.mul_(1e38)
    elif kind == "spots":
        values[torch.rand_like(values) < 0.2] = dice.choice([float("nan"), float("inf"), float("-inf"), 0.0, 1e-42])
    return values


def heads(batch: int, count: int, tokens: int, width: int, dice: random.Random) -> Tensor:
    """(B, H, N, d) of any strides: interleaved, transposed, expanded, overlapping, sliced out of something larger."""
    kind = dice.choice(["plain", "interleaved", "transposed", "expanded", "overlapping", "sliced"])
    if kind == "interleaved":
        return fill(torch.randn(batch, tokens, 3, count, width), dice).permute(2, 0, 3, 1, 4)[1]
    if kind == "transposed":
        return fill(torch.randn(batch, count, width, tokens), dice).transpose(2, 3)
    if kind == "expanded":
        return fill(torch.randn(1, 1, tokens, width), dice).expand(batch, count, tokens, width)
    if kind == "overlapping":
        flat = fill(torch.randn(batch + count + tokens + width), dice)
        return flat.as_strided((batch, count, tokens, width), (1, 1, 1, 1))
    if kind == "sliced":
        return fill(torch.randn(batch + 1, count + 1, 2 * tokens, width + 3), dice)[1:, 1:, ::2, 2:-1]
    return fill(torch.randn(batch, count, tokens, width), dice)


def rows(batch: int, tokens: int, width: int, dice: random.Random) -> Tensor:
    return heads(batch, 1, tokens, width, dice)[:, 0]


def make_view(dice: random.Random, most: int) -> BlockView:
    batch, count, width = dice.choice([0, 1, 1, 2, 5]), dice.randint(1, 5), dice.choice([1, 2, 15, 16, 17, 64, 70])
    prefix, patches = dice.choice([0, 1, 2, 5]), dice.choice([1, 2, 3, 15, 16, 17, 33, dice.randint(1, most)])
    tokens, channels = prefix + patches, dice.choice([1, 15, 16, 64, 65, 200])
    sizes = torch.randint(1, 9, (batch, patches)).float()
    return BlockView(
        block=dice.choice([0, 1, 2, 7, 11]),
        depth=12,
        r=dice.randint(0, patches // 2 + 1),
        num_prefix=prefix,
        has_cls=prefix > 0,
        features=rows(batch, tokens, channels, dice),
        residual=rows(batch, tokens, channels, dice),
        query=heads(batch, count, tokens, width, dice),
        key=heads(batch, count, tokens, width, dice),
        content_key=heads(batch, dice.choice([1, count]), tokens, width, dice),
        scale=dice.choice([1.0, 0.125, 0.0, 1e30]),
        bias=fill(torch.randn(batch, 1, 1, tokens), dice) if dice.random() < 0.5 else None,
        size=fill(sizes, dice) if dice.random() < 0.5 else None,
        previous_cls=fill(torch.rand(batch, patches), dice) if dice.random() < 0.5 else None,
        explain=dice.random() < 0.5,
    )


def check(plan: Plan, view: BlockView) -> None:
    every = torch.cat([plan.keep, plan.removed], 1).sort(-1).values
    assert torch.equal(every, torch.arange(view.num_patches).expand_as(every)), "a token is there twice, or missing"
    slots = plan.slots()
    assert int(slots.min()) >= -1
    assert int(slots.max()) < plan.num_kept


def decide_and_merge(compiled: Compiled, dice: random.Random, most: int) -> Plan | None:
    view, (name, options) = make_view(dice, most), dice.choice(METHODS)
    try:
        plan = compiled.decide(create_method(name, **options), view)
        if plan is None:
            return None
        check(plan, view)
        weight = plan.weight if dice.random() < 0.5 else torch.rand(view.residual.shape[0], view.num_patches)
        changed = replace(plan, blend=dice.choice(BLENDS), weight=weight, restore_norm=dice.random() < 0.5)
        changed = replace(changed, cls_attention=view.previous_cls)
        compiled.execute(dice.choice([plan, changed]), view.residual, TokenState(view.num_prefix, view.size))
    except REFUSALS:
        return None
    return plan


def spoil(value, dice: random.Random):
    """Something else in place of an argument."""
    if not isinstance(value, Tensor):
        return dice.choice(NUMBERS)
    size, flat = list(value.shape), value.reshape(-1)
    grown = [dice.choice([0, 1, count, count + 1, 3 * count]) for count in size]
    return dice.choice(
        [
            lambda: None,
            lambda: 3,
            lambda: flat.tolist()[:3],
            lambda: value.to("meta"),
            lambda: value.to_sparse(),
            lambda: value.to(dice.choice([torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.bool])),
            lambda: torch.zeros(grown, dtype=value.dtype),
            lambda: torch.zeros(grown[: dice.randint(0, len(grown))], dtype=value.dtype),
            lambda: torch.zeros([1] * len(size), dtype=value.dtype).expand(size),
            lambda: torch.zeros(size[::-1], dtype=value.dtype).permute(*reversed(range(len(size)))),
            lambda: torch.nn.Parameter(value, requires_grad=False),
            lambda: torch.empty_like(value).set_(),
            lambda: torch.randint(-(2**62), 2**62, size) if value.dtype == torch.int64 else value.neg(),
            lambda: torch._neg_view(value) if value.is_floating_point() else value + 1,
        ]
    )()


def spoiled_calls(recorder: Recorder, dice: random.Random) -> None:
    """A call that was right a moment ago, with arguments that are wrong, missing or the same tensor twice."""
    for name, ((threads,), fields) in list(recorder.calls.items()):
        wrong = dict(fields)
        for key in dice.sample(sorted(wrong), min(len(wrong), dice.randint(1, 2))):
            what = dice.random()
            if what < 0.7:
                wrong[key] = spoil(wrong[key], dice)
            elif what < 0.85:
                wrong[key] = wrong[dice.choice(sorted(wrong))]
            else:
                del wrong[key]
        try:
            getattr(recorder.module, name)(dice.choice([threads, 0, -3, 64, 2**40, "x"]), **wrong)
        except REFUSALS:
            continue


def in_threads(compiled: Compiled, seed: int) -> None:
    """Eight threads at once, while the number of PyTorch's own changes."""

    def work(number: int) -> None:
        dice = random.Random(seed + number)
        for _ in range(10):
            torch.set_num_threads(dice.randint(1, 4))
            decide_and_merge(compiled, dice, 60)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def after_fork(compiled: Compiled, kernels: Kernels, seed: int) -> None:
    """A child of a process that has used the threads must neither hang nor crash."""
    torch.set_num_threads(4)
    child = os.fork()
    if child == 0:
        alone = kernels.threads() == 1  # without anybody telling it
        torch.set_num_threads(1)  # PyTorch itself hangs here with more, as DataLoader knows
        dice = random.Random(seed)
        for _ in range(20):
            decide_and_merge(compiled, dice, 60)
        os._exit(not alone)
    assert os.waitpid(child, 0)[1] == 0, "the child of a fork died"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    kernels: Kernels | None = load()
    assert kernels is not None, "the compiled functions are not there"
    recorder = kernels.module = Recorder(kernels.module)
    compiled, dice, done = Compiled(kernels), random.Random(arguments.seed), 0
    torch.manual_seed(arguments.seed)
    for number in range(arguments.rounds):
        torch.set_num_threads(dice.randint(1, 4))
        done += decide_and_merge(compiled, dice, 4000 if number % 50 == 0 else 130) is not None
        spoiled_calls(recorder, dice)
    in_threads(compiled, arguments.seed)
    after_fork(compiled, kernels, arguments.seed)
    assert done > arguments.rounds / 4, f"only {done} plans in {arguments.rounds} rounds"
    print(f"{arguments.rounds} rounds, {done} plans, {len(recorder.calls)} functions, 8 threads, a fork: nothing broke")


if __name__ == "__main__":
    main()
