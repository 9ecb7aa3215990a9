"""One case: a batch size, eager or compiled. All variants of a model are timed in turns, and then their parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from catis import hosts
from catis.bench.files import load_exported, noise
from catis.bench.phases import time_phases
from catis.bench.roofline import Flow, Roofline, token_flow
from catis.bench.rows import Measured, macs_of
from catis.bench.settings import Settings
from catis.bench.timing import Step, Timed, peak_bytes, time_rounds
from catis.bench.variants import VANILLA, build_variants, compile_model, default_amount, forward_step
from catis.core.reduction import Reduction
from catis.errors import is_out_of_memory
from catis.export.check import Runner

Tell = Callable[[str, float], None]
"""Told what is going on, and which share of all is done."""


@dataclass(frozen=True)
class Cases:
    """The variants of one model, the tokens that flow through each, and the roofline."""

    settings: Settings
    variants: Mapping[Reduction, nn.Module]
    flows: Mapping[Reduction, Flow]
    roofline: Roofline | None
    exported: Mapping[tuple[Reduction, int], Runner] | None = None

    @classmethod
    def of(cls, model: nn.Module, settings: Settings, tell: Tell = lambda what, share: None) -> Cases:
        """Everything that the cases share."""
        handle = hosts.find(model)
        facts, cost = handle.facts, handle.cost()
        amounts = settings.amounts or (default_amount(cost.num_patches, facts.depth),)
        variants = build_variants(model, settings.methods, amounts, settings.recipes)
        flows = {
            variant: token_flow(cost, facts.num_prefix, hosts.find(net).reduction) for variant, net in variants.items()
        }
        if settings.runtime != "torch":
            threads = settings.threads or torch.get_num_threads()
            sizes = settings.batch_sizes
            exported = load_exported(variants, settings.runtime, threads, sizes, lambda what: tell(what, 0.0))
            # PyTorch's products are no roofline of another runtime.
            return cls(settings, variants, flows, None, exported)
        roofline = Roofline(cost, settings.precision.products, settings.place) if settings.causes else None
        return cls(settings, variants, flows, roofline)

    def measure(self, compiled: bool, batch: int, tell: Tell) -> list[Measured]:
        """All variants at one batch size, eager or compiled."""
        try:
            images = self._images(batch)
            roofline, flows = self.roofline, dict.fromkeys(self.flows.values())
            steps: dict[Reduction | Flow, Step] = (
                {} if roofline is None else {flow: roofline.step(flow, batch) for flow in flows}
            )
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return [self._measured(variant, batch, compiled, problem="out of memory") for variant in self.variants]
        ready = {variant: _Ready(self._step(variant, images)) for variant in self.variants}
        if compiled:
            ready = {variant: self._compiled(variant, images, tell) for variant in self.variants}
        steps |= {variant: state.step for variant, state in ready.items() if not state.problem}
        timed = self._time(steps, tell)
        return [self._finish(variant, images, compiled, state, timed, tell) for variant, state in ready.items()]

    def _step(self, variant: Reduction, images: Tensor) -> Step:
        if self.exported is None:
            return forward_step(self.variants[variant], images, self.settings.precision)
        run = self.exported[variant, len(images)]
        return lambda: run(images)

    def _images(self, batch: int) -> Tensor:
        shape = hosts.find(next(iter(self.variants.values()))).example_shape(batch)
        return noise(shape, batch, self.settings.seed).to(self.settings.place, self.settings.precision.weights)

    def _compiled(self, variant: Reduction, images: Tensor, tell: Tell) -> _Ready:
        """Compile and run once; a failure is told in the row, and the other rows go on."""
        tell(f"compiling {variant.method.name} r={variant.schedule}", 0.0)
        step = forward_step(compile_model(self.variants[variant]), images, self.settings.precision)
        start = time.perf_counter()
        try:
            step()
        except (RuntimeError, MemoryError) as error:
            why = "out of memory" if is_out_of_memory(error) else f"torch.compile failed: {str(error).splitlines()[0]}"
            return _Ready(step, problem=why)
        return _Ready(step, time.perf_counter() - start)

    def _time(self, steps: Mapping[Reduction | Flow, Step], tell: Tell) -> Timed[Reduction | Flow]:
        protocol = self.settings.protocol
        return time_rounds(
            steps,
            protocol.rounds,
            warmup=protocol.warmup,
            max_seconds=protocol.max_seconds,
            threads=self.settings.threads,
            seed=self.settings.seed,
            progress=lambda done, rounds: tell(f"round {done} of {rounds}", 0.1 + 0.7 * done / rounds),
        )

    def _finish(
        self,
        variant: Reduction,
        images: Tensor,
        compiled: bool,
        ready: _Ready,
        timed: Timed[Reduction | Flow],
        tell: Tell,
    ) -> Measured:
        """Times of one variant, and the parts of its pass."""
        batch, problem = images.shape[0], ready.problem or timed.failed.get(variant, "")
        if problem:
            return self._measured(variant, batch, compiled, problem=problem)
        tell(f"parts of {variant.method.name} r={variant.schedule}", 0.9)
        flow, causes = self.flows[variant], self.settings.causes and self.exported is None
        phases = None
        if causes and not compiled and variant != VANILLA:  # a compiled pass has no such parts
            phases = time_phases(self.variants[variant], images, self.settings.precision, threads=self.settings.threads)
        peak = peak_bytes(ready.step, self.settings.place) if causes else None
        return self._measured(
            variant, batch, compiled, seconds=timed.seconds[variant], roofline=timed.seconds.get(flow, ()),
            phases=phases, peak=peak, compile_seconds=ready.compile_seconds,
        )  # fmt: skip

    def _measured(self, variant: Reduction, batch: int, compiled: bool, **timings: Any) -> Measured:
        model = self.variants[variant]
        handle = hosts.find(model)
        tokens_last = self.flows[variant][-1].leaving - handle.facts.num_prefix
        return Measured(variant, batch, compiled, macs_of(model), tokens_last, **timings)


@dataclass(frozen=True)
class _Ready:
    """A variant that can be timed, or why it cannot."""

    step: Step
    compile_seconds: float | None = None
    problem: str = ""
