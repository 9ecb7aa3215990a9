"""What a trace says of every block, for every method, and the pictures drawn from it."""

import re
from xml.etree import ElementTree

import pytest
import timm
import torch
from PIL import Image

import catis
import catis.zoo
from catis.pictures.canvas import below
from catis.pictures.drawing import Look, layout_figure
from catis.pictures.patches import heat_map, outlines_of, patch_grid, spatial_layout
from catis.pictures.tracing import Trace, quarters
from tests.hosts.families import build, images

METHODS = ["tome", "tofu", "pitome", "mctf", "catis", "cluster"]
SIDE, PATCHES, DEPTH = 64, 16, 4


@pytest.fixture(scope="module", params=METHODS)
def seen(request) -> Trace:
    model = build("vit", depth=DEPTH)
    return catis.trace(catis.apply(model, request.param, r=3), images(model, batch=3))


def carried(before, block):
    """(B, patches) fate of the token that held each patch: 0 gone before, 1 kept, 2 merged, 3 evicted."""
    fate = block.kept.long() + 2 * block.merged + 3 * block.evicted
    return fate.gather(1, before.clamp_min(0)).masked_fill(before < 0, 0)


def test_token_counts(seen):
    assert [(block.index, block.tokens_in, block.tokens_left) for block in seen] == [
        (0, 16, 13), (1, 13, 10), (2, 10, 7), (3, 7, 4),
    ]  # fmt: skip
    assert len(seen) == DEPTH
    assert seen[-1] is seen.blocks[-1]


def test_kept_merged_evicted_are_a_partition(seen):
    for block in seen:
        masks = torch.stack([block.kept, block.merged, block.evicted])
        assert masks.shape == (3, 3, block.tokens_in)
        assert (masks.sum(0) == 1).all()
        assert (block.kept.sum(-1) == block.tokens_left).all()
        assert (block.merged.sum(-1) + block.evicted.sum(-1) == block.removed).all()


def test_sizes_count_the_patches_that_provenance_names(seen):
    for block in seen:
        assert block.size.shape == (3, block.tokens_left)
        assert block.provenance.shape == (3, PATCHES)
        for image in range(3):
            held = block.provenance[image]
            counts = held[held >= 0].bincount(minlength=block.tokens_left)
            assert torch.equal(counts.float(), block.size[image])


def test_provenance_chains(seen):
    """A patch stays evicted; two patches in one token stay together; a patch is lost only in a block that evicts it."""
    before = torch.arange(PATCHES).expand(3, -1)
    for block in seen:
        after = block.provenance
        fate = carried(before, block)
        assert ((after < 0) == ((before < 0) | (fate == 3))).all()
        together = (before[:, :, None] == before[:, None, :]) & (after[:, :, None] >= 0)
        assert (after[:, :, None] == after[:, None, :])[together].all()
        before = after


def test_scores_and_threshold(seen):
    for block in seen:
        assert block.scores["score"].shape == (3, block.tokens_in)
        assert block.scores["score"].isfinite().any(-1).all()
        assert block.threshold.shape == (3,)
        assert block.threshold.isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_a_trace_has_the_output_and_keeps_nothing_on_the_model(method):
    model = catis.apply(build("vit", depth=DEPTH), method, r=3)
    x, before = images(model), dict(vars(model))
    with torch.no_grad():
        expected = model(x)
    torch.testing.assert_close(catis.trace(model, x).output, expected, rtol=1e-5, atol=1e-5)
    assert vars(model).keys() == before.keys()


def test_catis_evicts_only_below_minus_tau_and_never_removes_above_tau():
    model = catis.apply(build("vit", depth=6), "catis", r=2, tau=0.7, l_start=1)
    for block in catis.trace(model, images(model, batch=4)):
        score, tau = block.scores["score"], block.threshold[:, None]
        assert torch.equal(tau.flatten(), torch.full((4,), 0.7))
        if ((score.abs() <= tau).sum(-1) >= 4).all():  # M can give what is asked of it, so nothing else is touched
            assert (score[block.evicted] < -0.7).all()
            assert (score[block.merged].abs() <= 0.7).all()


def test_catis_shows_both_signals_from_l_start_on():
    model = catis.apply(build("vit", depth=4), "catis", r=2, l_start=2, w_cls=0.25)
    blocks = catis.trace(model, images(model))
    assert [sorted(block.scores) for block in blocks] == [["s_nf", "score"]] * 2 + [["s_cls", "s_nf", "score"]] * 2
    for block in blocks[2:]:
        mixed = 0.25 * block.scores["s_cls"] + 0.75 * block.scores["s_nf"]
        torch.testing.assert_close(block.scores["score"], mixed, rtol=1e-5, atol=1e-5)


def test_tome_threshold_is_the_weakest_edge_taken():
    model = catis.apply(build("vit", depth=2), "tome", r=3)
    for block in catis.trace(model, images(model)):
        score, cut = block.scores["score"], block.threshold[:, None]
        assert torch.equal(block.merged, score >= cut)  # NaN (side B) compares false


@pytest.mark.parametrize("method", METHODS)
def test_what_was_really_removed_beyond_the_cap(method):
    model = catis.apply(build("vit", depth=6), method, r=100)
    seen = catis.trace(model, images(model))
    assert [block.removed for block in seen] == [8, 4, 2, 1, 0, 0]
    assert [block.tokens_left for block in seen] == [8, 4, 2, 1, 1, 1]
    assert seen[-1].threshold is None
    assert seen[-1].kept.all()


def test_mixed_schedule_shows_the_blocks_that_do_nothing():
    model = catis.apply(build("vit", depth=4), "tome", r=[0, 5, 0, 2])
    seen = catis.trace(model, images(model))
    assert [block.removed for block in seen] == [0, 5, 0, 2]
    assert torch.equal(seen[0].provenance[0], torch.arange(PATCHES))
    assert torch.equal(seen[0].size, torch.ones(2, PATCHES))


def test_summary_has_one_aligned_line_per_block(seen):
    lines = seen.summary().splitlines()
    assert lines[0].split() == ["block", "tokens", "in", "left", "merged", "evicted", "largest", "group"]
    assert len(lines) == DEPTH + 1
    assert len({len(line) for line in lines}) == 1
    assert lines[-1].split()[:3] == ["4", "7", "4"]


def test_trace_of_a_plain_model_is_refused():
    with pytest.raises(ValueError, match=r"VisionTransformer is not reduced: call catis.apply"):
        catis.trace(timm.create_model("test_vit"), torch.zeros(1, 3, 160, 160))


# Pictures


def test_show_has_a_column_per_block_and_a_row_per_signal():
    model = catis.apply(build("vit", depth=DEPTH), "catis", r=3, l_start=0)
    picture = catis.trace(model, images(model)).show(after=(1, 3, 12))
    side = 4 * SIDE  # enlarged fourfold, to at least 240 pixels
    assert picture.mode == "RGB"
    assert picture.size == (3 * (side + 10) + 10, 4 * (side + 30) + 10 + 36)  # 36 for the legend


def test_show_without_signals_of_catis_has_two_rows_and_the_quarters_of_the_depth():
    model = catis.apply(build("vit", depth=DEPTH), "tome", r=3)
    seen = catis.trace(model, images(model))
    assert seen.show(image=1).size == (5 * (256 + 10) + 10, 2 * (256 + 30) + 10 + 36)
    assert seen.show(image=1).tobytes() == seen.show(image=1, after=(1, 2, 3, 4)).tobytes()
    assert seen.show(heat_maps=False).size == (5 * (256 + 10) + 10, 256 + 30 + 10 + 36)
    assert seen.show(heat_maps=False, caption="a cup").size == (5 * (256 + 10) + 10, 26 + 256 + 30 + 10 + 36)
    assert seen.show(heat_maps=False, legend=False).size == (5 * (256 + 10) + 10, 256 + 30 + 10)


@pytest.mark.parametrize(("depth", "blocks"), [(12, [3, 6, 9, 12]), (24, [6, 12, 18, 24]), (32, [8, 16, 24, 32])])
def test_quarters_reach_the_last_block(depth, blocks):
    assert quarters(depth) == blocks
    assert quarters(1) == [1]


def test_show_refuses_block_zero():
    model = catis.apply(build("vit", depth=2), "tome", r=3)
    with pytest.raises(ValueError, match="blocks are counted from 1"):
        catis.trace(model, images(model)).show(after=(0,))


def picture_of(height=32, width=32):
    return torch.rand(3, height, width, generator=torch.Generator().manual_seed(3))


def test_layout_white_mean_and_untouched():
    image = picture_of()
    provenance = torch.tensor([-1, 0, 0, 1])  # 2 x 2 patches of 16 pixels: gone, two merged, one alone
    drawn = spatial_layout(image, provenance, "white")
    group = torch.cat([image[:, :16, 16:].flatten(1), image[:, 16:, :16].flatten(1)], 1)
    mean = group.double().mean(1).float()[:, None, None]
    assert (drawn[:, :16, :16] == 1).all()
    torch.testing.assert_close(drawn[:, :16, 16:], mean.expand(3, 16, 16), rtol=0, atol=1e-6)
    assert torch.equal(drawn[:, :16, 16:], drawn[:, 16:, :16])
    assert torch.equal(drawn[:, 16:, 16:], image[:, 16:, 16:])


def test_evicted_patches_can_be_told_apart_on_a_white_image():
    image, provenance = torch.ones(3, 32, 32), torch.tensor([-1, 0, 1, 2])
    black, dim = (spatial_layout(image, provenance, style)[:, :16, :16] for style in ("black", "dim"))
    assert (black == 0).all()
    assert (dim == 0.25).all()
    drawn = spatial_layout(picture_of(), provenance, "dim")
    torch.testing.assert_close(drawn[:, :16, :16], 0.25 * picture_of()[:, :16, :16])
    assert torch.equal(drawn[:, 16:], picture_of()[:, 16:])
    with pytest.raises(ValueError, match="evicted='blue': expected one of dim, white, black"):
        spatial_layout(image, provenance, "blue")


def test_layout_evicted_patches_do_not_tint_the_first_token():
    image = picture_of()
    drawn = spatial_layout(image, torch.tensor([-1, -1, 0, 1]))
    assert torch.equal(drawn[:, 16:], image[:, 16:])


def test_layout_of_oblong_images():
    assert patch_grid(8, 32, 64) == (2, 4)
    image = picture_of(32, 64)
    drawn = spatial_layout(image, torch.tensor([0, 1, 2, -1, 3, 4, 5, 6]), "white")
    assert (drawn[:, :16, 48:] == 1).all()
    assert torch.equal(drawn[:, 16:], image[:, 16:])


def test_patches_that_do_not_tile_are_refused():
    with pytest.raises(ValueError, match="7 patches do not tile an image of 32 x 32 pixels"):
        spatial_layout(picture_of(), torch.arange(7))


def test_heat_map_extremes():
    drawn = heat_map(torch.tensor([-3.0, float("nan"), 0.5, 4.0]), picture_of())
    low, high = torch.tensor([0.12, 0.10, 0.35]), torch.tensor([0.98, 0.90, 0.25])
    torch.testing.assert_close(drawn[:, 0, 0], low)
    torch.testing.assert_close(drawn[:, 31, 31], high)
    assert (drawn[:, :16, 16:] == 1).all()
    assert drawn.isfinite().all()


@pytest.mark.parametrize("value", [2.5, float("nan")])
def test_heat_map_of_a_constant_is_one_colour(value):
    drawn = heat_map(torch.full((4,), value), picture_of())
    assert drawn.isfinite().all()
    assert (drawn == drawn[:, :1, :1]).all()


def test_figures_are_enlarged_by_a_whole_factor_and_stand_below_each_other():
    plain = Look(legend=False)
    one, two = (layout_figure(picture_of(224, width), [], plain) for width in (224, 448))
    assert (one.width, one.height) == (448 + 20, 448 + 40)
    assert (two.width, two.height) == (448 + 20, 224 + 40)
    assert below([one, two]).height == one.height + two.height


def test_outlines_go_around_groups_and_not_through_them_or_the_evicted():
    lines = outlines_of(
        torch.tensor([0, 0, 1, -1, -1, 2]), 32, 48
    )  # 2 x 3: a pair and one above, two gone and one below
    at = pytest.approx(2 / 3)
    assert sorted(lines.groups) == [(0.0, 0.5, at, 0.5), (at, 0.0, at, 0.5)]
    assert sorted(lines.edges) == [(at, 0.5, at, 1.0), (at, 0.5, 1.0, 0.5)]


def test_one_group_has_no_line_inside():
    assert outlines_of(torch.zeros(16, dtype=torch.long), 64, 64) == outlines_of(torch.full((16,), -1), 64, 64)


@pytest.fixture(scope="module")
def zoo_trace():
    model = catis.apply(catis.zoo.load("tiny-6"), "catis", r=11)
    images, _ = next(catis.zoo.dataset("clean", split="test", n=2).batches(2))
    return catis.trace(model, images)


def test_a_gif_has_the_blocks_as_frames(zoo_trace, tmp_path):
    zoo_trace.save(tmp_path / "film.gif")
    zoo_trace.save(tmp_path / "short.gif", after=[2, 6, 40])
    with Image.open(tmp_path / "film.gif") as film, Image.open(tmp_path / "short.gif") as short:
        assert (film.n_frames, short.n_frames) == (6, 2)
        first = film.convert("RGB").tobytes()
        film.seek(5)
        assert film.convert("RGB").tobytes() != first
        assert film.info["loop"] == 0


def test_an_svg_is_xml_with_lines_words_and_its_own_pictures(zoo_trace, tmp_path):
    zoo_trace.save(tmp_path / "figure.svg", after=[6], heat_maps=False, caption="a < b")
    text = (tmp_path / "figure.svg").read_text()
    tree = ElementTree.fromstring(text)
    tags = [element.tag.split("}")[1] for element in tree.iter()]
    assert tags.count("image") == 2 + 3  # original, layout, three samples of the legend
    assert {"path", "text", "title"} <= set(tags)
    assert "a &lt; b" in text
    assert not re.findall(r'href="(?!data:image/png;base64,)', text)
    again = tmp_path / "again.svg"
    zoo_trace.save(again, after=[6], heat_maps=False, caption="a < b")
    assert again.read_text() == text


def test_other_endings_are_refused(zoo_trace, tmp_path):
    with pytest.raises(ValueError, match=r"expected a name that ends in .png or .svg or .gif"):
        zoo_trace.save(tmp_path / "figure.bmp")


def test_a_notebook_shows_picture_and_table(zoo_trace):
    shown = zoo_trace._repr_html_()
    assert shown.count("<svg") == 1
    assert "largest group" in shown
    assert shown.count("<tr") == 1 + len(zoo_trace)
    assert zoo_trace.table()._repr_html_() == zoo_trace.table().html()
