"""What a calibration costs: linear in the images, some vanilla passes of multiply-adds, and no image is kept."""

import weakref
from dataclasses import replace

import pytest
import timm
import torch
from torch.utils.flop_counter import FlopCounterMode

import catis
from catis import hosts
from catis.calibration.run import Calibrator, calibrated_weights
from catis.calibration.views import views
from catis.core.reduction import Reduction

PICTURES = torch.randn(64, 3, 112, 112, generator=torch.Generator().manual_seed(0)).cumsum(-1).div(6)


def model():
    """The proportions of a ViT, with 49 patches."""
    torch.manual_seed(0)
    made = timm.create_model(
        "vit_tiny_patch16_224", img_size=112, depth=6, embed_dim=96, num_heads=3, num_classes=7, init_values=None
    )
    return made.eval().requires_grad_(False)


def work(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("budget", [0.36, 0.5])
def test_it_is_linear_in_images_and_takes_few_vanilla_passes(budget):
    """All of it is counted, normal equations too. How often shares of a step are tried depends on what helps."""
    reduced = catis.apply(model(), "tome", budget=budget)
    half, whole = (work(lambda n=n: catis.calibrate(reduced, PICTURES[:n], batch_size=16)) for n in (32, 64))
    assert whole < 2.2 * half
    passes = whole / work(lambda: model()(PICTURES))
    assert 1 < passes < 6


def test_images_are_not_kept():
    """Every batch is asked for once; when blocks are fitted, at most the last one is still there."""
    net, seen, alive = model(), [], []
    reduction = hosts.find(net).bind(Reduction.of("tome", budget=0.5))

    def batches():
        for view in views(PICTURES[:32], hosts.find(net).preprocessing(), 8):
            made = view._replace(images=view.images.clone())
            seen.append(weakref.ref(made.images))
            yield made

    def progress(done, total):
        alive.append(sum(image() is not None for image in seen))

    calibrated_weights(net, reduction, batches(), progress=progress)
    assert len(seen) > 5
    assert max(alive) <= 1


def test_nothing_is_computed_that_nobody_reads():
    """Behind the last block the head reads the CLS token alone; it is what it would be with all tokens computed."""
    net = model()
    reduction = hosts.find(net).bind(Reduction.of("tome", budget=0.5))
    with torch.no_grad():
        made = Calibrator(hosts.find(net), reduction, views(PICTURES[:16], hosts.find(net).preprocessing(), 8))
        place, last = made.streams[0].place, made.fits[-1]
        for fit in made.fits[:-1]:
            place = fit.pass_by(place)
        read, whole = last.pass_by(place).tokens, replace(last, prefix_only=False).pass_by(place).tokens
    assert last.prefix_only
    assert read.shape[1] == 1 < whole.shape[1]
    torch.testing.assert_close(read, whole[:, :1], rtol=1e-5, atol=1e-5)
