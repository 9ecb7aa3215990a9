"""A share of the multiply-adds as an argument: met to one token, for every host, spelled alike everywhere."""

import json
from itertools import pairwise

import pytest
import timm
import torch
import typer
from typer.testing import CliRunner

import catis
from catis import hosts
from catis.cli import app
from catis.core.reduction import Reduction
from catis.core.schedule import Schedule

from .hosts import families, hf_models

NAMES = ["deit_tiny_patch16_224", "vit_base_patch16_224", "deit_tiny_distilled_patch16_224", "vit_small_patch16_dinov3"]
NAMES += ["vit_base_patch16_siglip_224"]


def meta(name, **options):
    with torch.device("meta"):
        return timm.create_model(name, **options)


def one_token(model):
    """The most that one token in one block costs."""
    handle = hosts.find(model)
    cost, patches = handle.cost(), handle.cost().num_patches
    full = [patches] * handle.facts.depth
    fewer = ([*full[:block], *[patches - 1] * (handle.facts.depth - block)] for block in range(handle.facts.depth))
    return (cost.macs(handle.facts.num_prefix) - min(cost.macs(handle.facts.num_prefix, kept) for kept in fewer)) / 1e9


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("budget", [0.36, 0.5, 0.65, 0.8])
@pytest.mark.parametrize("head_only", [None, False])
def test_it_is_met_to_one_token(name, budget, head_only):
    model = meta(name)
    vanilla = catis.gmacs(model)
    catis.apply(model, budget=budget, head_only=head_only)
    reduced = catis.gmacs(model)
    assert reduced <= budget * vanilla < reduced + one_token(model)
    info = catis.info(model)
    assert all(after <= before <= 2 * after for before, after in pairwise((info.patches, *info.tokens)))
    assert info.budget == budget
    assert info.head_only == (head_only is None and getattr(model, "global_pool", "") == "token")
    assert catis.gmacs(catis.remove(model), "tome", budget=budget, head_only=head_only) == reduced


def test_the_forward_removes_what_is_counted():
    model = families.build("vit").requires_grad_(False)
    catis.apply(model, "tome", budget=0.6)
    x = families.images(model)
    left = [block.tokens_left for block in catis.trace(model, x)]
    assert left == list(catis.info(model).tokens)
    with catis.applied(model, Reduction.of("tome", [a - b for a, b in pairwise((16, *left))], head_only=True)):
        expected = model(x)
    assert torch.equal(model(x), expected)
    assert f"catis=tome {model.catis_reduction.schedule}" in repr(model)


def test_an_image_of_another_size_keeps_the_same_shares():
    model = families.build("dynamic")
    catis.apply(model, "tome", budget=0.5)
    small = [block.tokens_left for block in catis.trace(model, torch.randn(1, 3, 64, 64))]
    large = [block.tokens_left for block in catis.trace(model, torch.randn(1, 3, 128, 128))]
    assert [round(64 * kept / 16) for kept in small] == large


def test_one_is_vanilla_and_what_nobody_reaches_is_refused():
    model = families.build("vit")
    x = families.images(model)
    vanilla = model(x)
    assert torch.equal(catis.apply(model, budget=1)(x), vanilla)
    with pytest.raises(ValueError, match=r"nobody can reach it; .* still costs 0\.\d+ of vanilla"):
        catis.apply(model, budget=0.01)
    for wrong in (0, -0.5, 1.5, True, "half", float("nan")):
        with pytest.raises(ValueError, match="expected a share of vanilla's multiply-adds, above 0, at most 1"):
            catis.apply(model, budget=wrong)
    with pytest.raises(ValueError, match=r"budget=0\.5 beside r=8"):
        catis.apply(model, r=8, budget=0.5)
    with pytest.raises(ValueError, match="has amounts of its own"):
        catis.apply(model, "mctf", budget=0.5, reference=True)
    assert torch.equal(model(x), vanilla)


TRANSFORMERS = [
    "ViTForImageClassification",
    "DeiTForImageClassification",
    "Dinov2Model",
    "Dinov2ForImageClassification",
]
TRANSFORMERS += ["VideoMAEModel", "CLIPModel", "CLIPForImageClassification", "SiglipVisionModel"]


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name):
    model = hf_models.build(name)
    vanilla = catis.gmacs(model)
    catis.apply(model, "tome", budget=0.7)
    assert catis.gmacs(model) <= 0.7 * vanilla < catis.gmacs(model) + one_token(model)
    reads_prefix = name in ("ViTForImageClassification", "DeiTForImageClassification")
    assert hosts.find(model).reduction.head_only == reads_prefix
    model(**hf_models.inputs_for(model))


def test_it_survives_text_json_and_recipes(tmp_path):
    asked = Reduction.of("catis", budget=0.36, tau=0.8)
    assert str(asked) == "catis budget=0.36"
    assert Reduction.from_json(json.loads(json.dumps(asked.to_json()))) == asked
    assert Reduction.from_json({"method": "catis", "budget": 0.36, "options": {"tau": 0.8}}) == asked
    model = catis.apply(families.build("vit"), "tome", budget=0.6)
    bound = hosts.find(model).reduction
    assert Reduction.from_json(json.loads(json.dumps(bound.to_json()))) == bound
    assert hosts.find(model).bind(bound) == bound
    path = catis.save_recipe(model, tmp_path / "recipe")
    assert hosts.find(catis.apply(families.build("vit"), recipe=path)).reduction == bound
    for schedule in (Schedule.of_budget(0.36), Schedule.of_kept([12, 9, 9], 16)):
        assert Schedule.from_text(str(schedule)) == schedule
        assert Schedule.from_json(json.loads(json.dumps(schedule.to_json()))) == schedule
    with pytest.raises(ValueError, match="block 0 goes from 16 to 7 tokens"):
        Schedule.of_kept([7, 7], 16)


def options_of_commands():
    """Every spelling of every option, by command."""
    commands = typer.main.get_command(app).commands
    return {name: {text for option in found.params for text in option.opts} for name, found in commands.items()}


def test_commands():
    run = CliRunner().invoke
    shown = run(app, ["gmacs", "deit_tiny_patch16_224", "-b", "0.5"])
    assert "cluster budget=0.5" in shown.output
    assert "50.0% of vanilla" in shown.output
    with_amount = {name for name, options in options_of_commands().items() if "-r" in options}
    assert with_amount == {"eval", "bench", "diagnose", "show", "export", "gmacs"}
    for name in with_amount:
        assert {"-b", "--budget"} <= options_of_commands()[name], name
        assert "--budget" in run(app, [name, "--help"], env={"COLUMNS": "200"}).output
    assert {"-b", "--budget"} <= options_of_commands()["tune"]
    refused = run(app, ["gmacs", "tiny-6", "-r", "3", "--budget", "0.5"])
    assert "one of them says how many tokens go" in " ".join(refused.output.split())


def test_plans(tmp_path):
    from catis.sweep.jobs import expand
    from catis.sweep.plan import read_plan

    file = tmp_path / "plan.toml"
    file.write_text('budget = [0.36, 0.5]\nmethods = ["tome"]\ndata = ["zoo-clean"]\nmodels.small.name = "tiny-6"\n')
    labels = [job.label for job in expand(read_plan(file))]
    assert labels[1:] == ["small tome budget=0.36 zoo-clean", "small tome budget=0.5 zoo-clean"]
