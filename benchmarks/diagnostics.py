"""Measures the diagnostics: what they cost, and what they find on real models, as CSV files with their commands.

    python benchmarks/diagnostics.py cost      --out results                       # cost against plain forward passes
    python benchmarks/diagnostics.py layers    deit_tiny_patch16_224 --out results # rho_s, rho_off per layer, fits
    python benchmarks/diagnostics.py critical  deit_tiny_patch16_224 --out results # r_crit by bisection, Pareto curves
    python benchmarks/diagnostics.py depth     --out results                       # r_crit against 1/L over the zoo
    python benchmarks/diagnostics.py energy    deit_tiny_patch16_224 --out results # perturbation energy

Real models and images come from the folder --assets (weights, load.py, images/imagenet1000); partial results are
written after every batch of `layers` and every r of `critical`.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import math
import resource
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from torch import Tensor, nn

import catis
import catis.zoo
from catis.core.block import BlockRecord
from catis.data.batches import batches
from catis.data.corruptions import corrupt
from catis.data.images import ImageFolder
from catis.data.preprocessing import Preprocessing
from catis.diagnostics.assumptions import measure_assumptions
from catis.diagnostics.critical import find_critical_r, fit_depth
from catis.diagnostics.estimates import bands
from catis.diagnostics.pareto import check_convexity
from catis.diagnostics.perturbation import energy_scaling
from catis.diagnostics.report import Diagnosis
from catis.diagnostics.report import rows as rows_of
from catis.health.conclusion import conclude
from catis.health.critical_r import measure_critical_r, predict_classes
from catis.health.probes import ReducedProbe, VanillaProbe, watch
from catis.inference import batch_images
from catis.methods.catis import Catis
from catis.methods.tome import ToMe
from catis.registry import create_method

METHODS = ("tome", "tofu", "pitome", "mctf", "catis")
PROBES = ("catis:13", "tome:13", *(f"{method}:23" for method in METHODS))
TOKENS = (16, 32, 64, 128, 256, 512)


def main() -> None:
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with torch.inference_mode():
        {"cost": cost, "layers": layers, "critical": critical, "depth": depth, "energy": energy}[arguments.what](
            arguments
        )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cost", "layers", "critical", "depth", "energy"))
    parser.add_argument("model", nargs="?", default="vit_tiny_patch16_224")
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--limit", type=int, default=None, help="images; all by default")
    parser.add_argument("--probes", nargs="+", default=list(PROBES), help="METHOD:R, for layers")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--img-size", type=int, default=384, help="for energy: larger images have more tokens")
    return parser.parse_args()


def write(path: Path, rows: Sequence[dict[str, Any]], **facts: Any) -> None:
    """A CSV whose first lines, after #, say how it was made; whole or not at all."""
    partial_path = path.with_name(path.name + ".part")
    with partial_path.open("w", newline="") as file:
        file.write(f"# command: python {shlex.join(sys.argv)}\n")
        file.write(f"# catis {catis.__version__}, torch {torch.__version__}, timm {timm.__version__}\n")
        for name, value in facts.items():
            file.write(f"# {name}: {value}\n")
        columns = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows({name: number(value) for name, value in row.items()} for row in rows)
    partial_path.replace(path)


def number(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return "" if math.isnan(value) else f"{value:.6g}"


def load(arguments: argparse.Namespace) -> tuple[nn.Module, Preprocessing]:
    spec = importlib.util.spec_from_file_location("assets_load", arguments.assets / "load.py")
    assert spec is not None
    assert spec.loader is not None
    assets = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(assets)
    mean, std, crop_pct = assets.PREPROCESS[arguments.model]
    return assets.model(arguments.model), Preprocessing(crop_pct=crop_pct, mean=mean, std=std)


def folder(arguments: argparse.Namespace, preprocessing: Preprocessing) -> ImageFolder:
    return ImageFolder(arguments.assets / "images" / "imagenet1000", preprocessing, arguments.limit)


def pairs(
    arguments: argparse.Namespace, model: nn.Module, preprocessing: Preprocessing
) -> Iterator[tuple[Tensor, Tensor]]:
    """Clean and corrupted batches (Gaussian noise, severity 5)."""
    for batch in batches(folder(arguments, preprocessing), arguments.batch_size, 1, _noise):
        clean, damaged = (batch_images(images, preprocessing, model) for images in (batch.pixels, batch.damaged))
        yield clean, damaged


def _noise(pixels: Any, seed: int) -> Any:
    return corrupt(pixels, "gaussian_noise", 5, seed)


def layers(arguments: argparse.Namespace) -> None:
    model, preprocessing = load(arguments)
    vanilla = VanillaProbe(model, Catis())
    asked = [probe.split(":") for probe in arguments.probes]
    probes = [ReducedProbe(model, create_method(name), int(r), channels=int(r) < 23) for name, r in asked]
    started = time.time()
    for step, (clean, damaged) in enumerate(pairs(arguments, model, preprocessing)):
        reference = vanilla.step(clean, damaged)
        for probe in probes:
            probe.step(clean, reference)
        if arguments.limit or step % 10 == 9:
            save_layers(arguments, [conclude(vanilla, probe, arguments.model, "gaussian_noise 5") for probe in probes])
            print(f"{vanilla.n} images, {time.time() - started:.0f} s", flush=True)
    save_layers(arguments, [conclude(vanilla, probe, arguments.model, "gaussian_noise 5") for probe in probes])


def save_layers(arguments: argparse.Namespace, found: Sequence[Diagnosis]) -> None:
    stem = f"{arguments.out}/diagnostics-{arguments.model}"
    facts = {"model": arguments.model, "n": found[0].n, "corruption": found[0].corruption}
    write(Path(f"{stem}-rho_s.csv"), list(consistency_rows(found[0])), **facts)
    write(Path(f"{stem}-reduction.csv"), [row for one in found for row in reduction_rows(one)], **facts)
    write(Path(f"{stem}-fits.csv"), [fit_row(one) for one in found], **facts)


def consistency_rows(found: Diagnosis) -> Iterator[dict[str, Any]]:
    for signal, estimates in found.consistency.items():
        for layer, e in enumerate(estimates):
            yield {"signal": signal, "layer": layer, "mean": e.mean, "low": e.low, "high": e.high, "n": e.n}
        for band, mean in bands(estimates).items():
            yield {"signal": signal, "layer": band, "mean": mean, "n": estimates[0].n}


def reduction_rows(found: Diagnosis) -> Iterator[dict[str, Any]]:
    for layer, known in enumerate(rows_of(found)):
        row: dict[str, Any] = {"method": found.method, "r": found.r, "layer": layer}
        row["matched"] = known["matched"]
        row |= {f"vanilla_{name}": found.vanilla[name][layer].mean for name in ("rho_off", "excess")}
        row |= {name: values[layer].mean for name, values in found.reduced.items()}
        row |= {name: values[layer].mean for name, values in found.distortion.items()}
        yield row


def fit_row(found: Diagnosis) -> dict[str, Any]:
    row: dict[str, Any] = {"method": found.method, "r": found.r, "n": found.n}
    if found.agreement is not None:
        row |= {"agreement": found.agreement.mean, "low": found.agreement.low, "high": found.agreement.high}
    row |= {"r_crit_predicted": found.r_crit_predicted, "verdict": found.verdict.state}
    row["rho_off_rise"] = found.verdict.numbers["rho_off_rise"]
    if found.amplifier is not None:
        fit = found.amplifier
        row |= {"epsilon_0/alpha": fit.channel.ratio, "seed": fit.channel.seed, "gain": fit.channel.gain}
        row |= {"beta": fit.beta, "beta_low": fit.beta_low, "beta_high": fit.beta_high, "R2": fit.r_squared}
        row |= {"linear_R2": fit.linear_r_squared, "AICc": fit.aic, "linear_AICc": fit.linear_aic}
        row |= {"p": fit.p_value, "growth": fit.growth}
    if found.dual is not None:
        dual = found.dual
        row |= {"merge_seed": dual.merge_alone.channel.seed, "evict_seed": dual.evict_alone.channel.seed}
        row |= {"merge_beta": dual.merge_alone.beta, "evict_beta": dual.evict_alone.beta}
        row |= {"merge_linear_seed": dual.merge_alone.linear_seed, "evict_linear_seed": dual.evict_alone.linear_seed}
        row |= {"dual_R2": dual.r_squared["both"], "additive_R2": dual.additive_r_squared}
    return row


def critical(arguments: argparse.Namespace) -> None:
    """r_crit by agreement and by accuracy (the folder's class names are labels), and the curves bisection met."""
    model, preprocessing = load(arguments)
    images = folder(arguments, preprocessing)
    names = sorted({path.name for path in images.root.iterdir()})
    truth = np.array([names.index(name.split("/")[0]) for name in images.names])
    vanilla = predict_classes(model, images, preprocessing, arguments.batch_size)
    rows: list[dict[str, Any]] = []
    path = arguments.out / f"diagnostics-{arguments.model}-critical.csv"
    for method in arguments.methods:
        known: dict[int, np.ndarray[Any, Any]] = {}

        def predictions(r: int, method: str = method, known: dict[int, Any] = known) -> np.ndarray[Any, Any]:
            if r not in known:
                with catis.applied(model, method, r=r):
                    known[r] = predict_classes(model, images, preprocessing, arguments.batch_size)
            return known[r]

        agreement = find_critical_r(lambda r: float((predictions(r) == vanilla).mean()), r_max=32)
        accuracy = find_critical_r(
            lambda r: float((predictions(r) == truth).mean()),
            r_max=32,
            vanilla=float((vanilla == truth).mean()),
        )
        for r in (4, 8, 12, 16, 20, 24):
            predictions(r)
        curve = sorted(known)
        losses = [float((known[r] != vanilla).mean()) for r in curve]
        convex = check_convexity([0, *curve], [0.0, *losses], n=len(truth))
        row: dict[str, Any] = {"method": method, "r_crit_agreement": agreement.r, "r_crit_accuracy": accuracy.r}
        row |= {
            "convex": convex.convex,
            "violations": " ".join(f"r={v.at:g}({v.sigmas:.1f}s)" for v in convex.violations),
        }
        row |= {f"agreement r={r}": 1 - loss for r, loss in zip(curve, losses, strict=True)}
        row |= {f"accuracy r={r}": float((known[r] == truth).mean()) for r in curve}
        rows.append(row)
        write(path, rows, model=arguments.model, n=len(truth), vanilla_accuracy=float((vanilla == truth).mean()))
        print(method, agreement.r, accuracy.r, flush=True)


def depth(arguments: argparse.Namespace) -> None:
    """r_crit of the zoo's models of every depth, by agreement and by accuracy, and its law in 1/L."""
    images = catis.zoo.dataset("clean", split="test", n=arguments.limit or 1000)
    data = [images[i] for i in range(len(images))]
    prepared = Preprocessing(data[0][0].shape[:2], 1.0, catis.zoo.MEAN, catis.zoo.STD)
    models = {name: catis.zoo.load(name) for name in catis.zoo.list_models() if not name.endswith("-gap")}
    rows: list[dict[str, Any]] = []
    for method in arguments.methods:
        for labels in (None, [label for _, label in data]):
            known = {}
            for name, model in models.items():
                known[name] = measure_critical_r(
                    model, data, method, labels=labels, preprocessing=prepared, batch_size=50
                )
            found = {len(models[name].blocks): one.r for name, one in known.items() if one.r is not None}
            fit = fit_depth(list(found), [float(r) for r in found.values()])
            rows.append({"method": method, "by": "agreement" if labels is None else "accuracy", **fit.__dict__})
            rows[-1] |= {f"r_crit {name}": one.r for name, one in known.items()}
            write(arguments.out / "diagnostics-zoo-depth.csv", rows, images=len(data), view="clean")
            print(rows[-1], flush=True)


def energy(arguments: argparse.Namespace) -> None:
    """Slope of V_pair / V_unary on Gaussian features and on those of real blocks, and what the proposition assumes."""
    model, preprocessing = load(arguments)
    width = model.embed_dim
    rows = []

    def gaussian(n: int) -> Tensor:
        return torch.randn(n, width, generator=torch.Generator().manual_seed(n))

    for sigma in (0.01, 0.1, 0.5):
        rows += energy_rows(f"gaussian d={width}", gaussian, sigma)
    assumptions = []
    for layer, (clean, damaged) in real_features(arguments, model, preprocessing).items():
        pool = clean[0][torch.randperm(clean.shape[1], generator=torch.Generator().manual_seed(0))]
        spread = float(pool.std(0).mean())
        for share in (0.01, 0.1, 0.5):
            rows += energy_rows(f"{arguments.model} block {layer}", lambda n, pool=pool: pool[:n], share * spread)
        assumptions.append({"block": layer, **measure_assumptions(clean, damaged).__dict__})
    stem = f"{arguments.out}/diagnostics-{arguments.model}-energy"
    facts = {"model": arguments.model, "image size": arguments.img_size, "draws": 32}
    write(Path(f"{stem}.csv"), rows, **facts)
    write(Path(f"{stem}-assumptions.csv"), assumptions, **facts, images=arguments.limit)


def energy_rows(name: str, features: Any, sigma: float) -> list[dict[str, Any]]:
    scaling = energy_scaling(features, TOKENS, sigma, draws=32)
    head = {"features": name, "sigma": sigma, "slope": scaling.slope, "low": scaling.low, "high": scaling.high}
    head["first_order_slope"] = scaling.first_order_slope
    return [
        {**head, "tokens": n, "ratio": e.pair / e.unary, "first_order_ratio": e.pair_first_order / e.unary_first_order}
        | {"pair_noise_to_signal": e.pair_noise_to_signal, "unary_noise_to_signal": e.unary_noise_to_signal}
        for n, e in zip(scaling.tokens, scaling.energies, strict=True)
    ]


def real_features(
    arguments: argparse.Namespace, model: Any, preprocessing: Preprocessing
) -> dict[int, tuple[Tensor, Tensor]]:
    """Z of a shallow, a middle and a deep block on larger images, clean and corrupted."""
    size = (arguments.img_size, arguments.img_size)
    model.set_input_size(img_size=size)
    bigger = Preprocessing(size, preprocessing.crop_pct, preprocessing.mean, preprocessing.std)
    clean, damaged = next(pairs(arguments, model, bigger))
    depth, found = len(model.blocks), {}

    def record(block: BlockRecord) -> None:
        if block.index in (1, depth // 2, depth - 1) and block.view is not None:
            features = block.view.patch_features()
            found[block.index] = (features[: len(clean)].clone(), features[len(clean) :].clone())

    watch(model, ToMe(), 0, torch.cat([clean, damaged]), record)
    return found


def cost(arguments: argparse.Namespace) -> None:
    """CPU seconds of points 2 and 3 (rho_s of every signal, Delta F, pool, rho_off vanilla and reduced) per image."""
    model = timm.create_model(arguments.model).eval()
    n, size = arguments.limit or 1000, arguments.batch_size
    plain = diagnosed = 0.0
    vanilla = VanillaProbe(model, Catis())
    reduced = ReducedProbe(model, Catis(), 13)
    before = peak()
    for step in range(0, n, size):
        generator = torch.Generator().manual_seed(step)
        clean = torch.randn(min(size, n - step), 3, 224, 224, generator=generator)
        damaged = clean + 0.5 * torch.randn(clean.shape, generator=generator)
        start = time.process_time()
        model(clean)
        model(damaged)
        middle = time.process_time()
        reduced.step(clean, vanilla.step(clean, damaged))
        diagnosed += time.process_time() - middle
        plain += middle - start
        if step == 0:
            before, plain, diagnosed = peak(), 0.0, 0.0  # the first batch warms up and sets the memory
            counted = -len(clean)
    counted += vanilla.n
    row = {"model": arguments.model, "n": counted, "two_plain_passes_ms": 1e3 * plain / counted}
    row |= {"diagnostics_ms": 1e3 * diagnosed / counted, "ratio": diagnosed / plain, "limit": 3.0}
    row |= {"batch_size": size, "peak_mb_first_batch": before, "peak_mb_last_batch": peak()}
    write(arguments.out / "diagnostics-cost.csv", [row], threads=arguments.threads)
    print(row)
    if row["ratio"] > 3.0:
        raise SystemExit("over the limit")


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
