"""The life of a reduced model: copy, pickle, compile, export, threads, training, replication, removal."""

import copy
import io
import pickle
import sys
import threading

import pytest
import torch

import catis
from catis import zoo
from catis.core.reduction import Reduction
from catis.hosts.swap import Reduced

from .families import build, images

METHODS = ["tome", "tofu", "pitome", "mctf", "catis", "cluster"]
FAMILIES = ["vit", "deit3", "dinov3", "siglip-map"]


def reduced(method: str, family: str = "vit", **options):
    return catis.apply(build(family), method, **({"r": 3} | options))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_copies_give_the_same_answers(method, family):
    model = reduced(method, family)
    x = images(model)
    with torch.no_grad():
        expected = model(x)
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):  # noqa: S301
            assert torch.equal(twin(x), expected)
            assert type(twin) is type(model)
        buffer = io.BytesIO()
        torch.save(model, buffer)
        buffer.seek(0)
        assert torch.equal(torch.load(buffer, weights_only=False)(x), expected)


def test_a_copy_lives_on_its_own():
    model = reduced("tome")
    twin = copy.deepcopy(model)
    catis.remove(model)
    assert isinstance(twin, Reduced)
    assert twin.catis_reduction.schedule.r == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_state_dict_is_unchanged(family):
    model = build(family)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    catis.apply(model, "catis", r=3)
    assert list(model.state_dict()) == list(before)
    model.load_state_dict(before)
    model.to(torch.float64).load_state_dict(before)


@pytest.mark.parametrize("family", FAMILIES)
def test_remove_leaves_no_trace(family):
    model = build(family)
    kind, attributes, x = type(model), dict(vars(model)), images(model)
    classes = [type(module) for module in model.modules()]
    with torch.no_grad():
        expected = model(x)
        catis.apply(model, "catis", r=3)(x)
        catis.remove(model)
        assert torch.equal(model(x), expected)
    assert type(model) is kind
    assert vars(model).keys() == attributes.keys()
    assert [type(module) for module in model.modules()] == classes
    assert not [hook for module in model.modules() for hook in (*module._forward_hooks, *module._forward_pre_hooks)]
    catis.remove(model)  # a second time does nothing


def test_apply_over_an_applied_model_replaces():
    model = reduced("tome")
    kind = type(model)
    catis.apply(model, "catis", r=2, tau=0.7)
    assert type(model) is kind
    assert model.catis_reduction.method.tau == 0.7
    assert catis.remove(model).__class__.__name__ == "VisionTransformer"


def test_applied_restores_on_error_and_nests():
    model = build("vit")
    with pytest.raises(RuntimeError, match="inside"), catis.applied(model, "tome", r=3):
        raise RuntimeError("inside")
    assert type(model).__name__ == "VisionTransformer"
    catis.apply(model, "tome", r=3)
    with catis.applied(model, "catis", r=2):
        assert model.catis_reduction.method.name == "catis"
    assert model.catis_reduction.method.name == "tome"


BAD = [
    ({"method": "tomee", "r": 3}, "expected one of .*tome"),
    ({"method": "tome", "r": -1}, "negative"),
    ({"method": "tome"}, "say how many"),
    ({"method": "tome", "r": 3, "gamma": 1}, "no option 'gamma'"),
    ({"method": "catis", "r": 3, "tau": -1}, "tau=-1"),
    ({"method": "catis", "r": 3, "w_cls": 1.5}, "w_cls=1.5"),
    ({"method": "catis", "r": 3, "evict_ratio": float("nan")}, "evict_ratio=nan"),
    ({"method": "catis", "r": 3, "l_start": 1.5}, "l_start=1.5"),
    ({"method": "catis", "r": 3, "signal": "xyz"}, "signal='xyz'"),
    ({"method": "catis", "r": 3, "strategy": "xyz"}, "strategy='xyz'"),
    ({"method": "pitome", "r": 3, "ratio": 0.9}, "reference=True"),
    ({"method": "pitome", "r": 3, "order": "xyz"}, "order='xyz'"),
    ({"method": "pitome", "r": 3, "ratio": 0.9, "reference": True}, "decides the amounts itself"),
    ({"method": "mctf", "r": 3, "pooling": "xyz"}, "pooling='xyz'"),
    ({"method": "mctf", "r": 3, "blocks": (1,)}, "set reference=True"),
    ({"method": "tofu", "r": 3, "late": "xyz"}, "late='xyz'"),
    ({"method": "tome", "r": 3, "schedule": "up"}, "schedule='up'"),
    ({"method": "tome", "r": [3, 3]}, "2 entries for 4 blocks"),
    ({"method": "tome", "r": 3, "reference": "yes"}, "reference='yes': expected True or False"),
]


@pytest.mark.parametrize(("arguments", "why"), BAD, ids=lambda value: str(value)[:60])
def test_refused_arguments_leave_the_model_as_it_was(arguments, why):
    model = build("vit")
    with pytest.raises(ValueError, match=why):
        catis.apply(model, **arguments)
    assert type(model).__name__ == "VisionTransformer"
    assert not any("catis" in key for key in vars(model))


def test_reference_mctf_refuses_two_prefix_tokens():
    with pytest.raises(ValueError, match="protects one prefix token"):
        catis.apply(build("deit-distilled"), "mctf", r=3, reference=True)


@pytest.mark.parametrize("method", METHODS)
def test_eight_threads_share_one_model(method):
    model = reduced(method)
    batches = [torch.randn(1 + i % 3, 3, 64, 64) for i in range(8)]
    with torch.no_grad():
        expected = [model(x) for x in batches]
    answers: list = [None] * 8

    def work(i: int) -> None:
        with torch.no_grad():
            for _ in range(3):
                answers[i] = model(batches[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(answers, expected, strict=True))


COMPILED = [(method, "vit") for method in METHODS] + [("catis", "dinov3")]


@pytest.mark.parametrize(("method", "family"), COMPILED)
def test_compiles_whole(method, family):
    """fullgraph=True raises at the first graph break."""
    torch._dynamo.reset()
    model = catis.apply(build(family, depth=3), method, r=3)
    x = images(model)
    with torch.no_grad():
        expected = model(x)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), expected, rtol=1e-5, atol=1e-5)


def test_compiles_with_inductor():
    """One image and four blocks: inductor once gave halves of a concatenation to later blocks, which overwrote them."""
    torch._dynamo.reset()
    model = catis.apply(build("vit", depth=4), "catis", r=3)
    x = images(model, batch=1)
    with torch.no_grad():
        expected = model(x)
        compiled = torch.compile(model, fullgraph=True)
        torch.testing.assert_close(compiled(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("method", "family"), COMPILED)
def test_exports_and_stays_right(method, family):
    model = catis.apply(build(family, depth=3), method, r=3)
    x = images(model)
    with torch.no_grad():
        expected = model(x)
        batch = torch.export.Dim("batch", min=1, max=16)
        program = torch.export.export(model, (x,), dynamic_shapes={"x": {0: batch}})
        torch.testing.assert_close(program.module()(x), expected, rtol=1e-5, atol=1e-5)
        more = images(model, batch=5)
        torch.testing.assert_close(program.module()(more), model(more), rtol=1e-5, atol=1e-5)
        assert torch.equal(model(x), expected)


@pytest.mark.parametrize("method", METHODS)
def test_autocast(method):
    model = reduced(method)
    x = images(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        out = model(x)
        seen = catis.trace(model, x)
    assert torch.isfinite(out).all()
    assert seen[-1].size.dtype == torch.float32
    assert seen[-1].size.sum(-1).add((seen[-1].provenance < 0).sum(-1)).tolist() == [16, 16]
    with torch.no_grad():
        cosine = torch.nn.functional.cosine_similarity(out.float(), model(x))
    assert (cosine > 0.9).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_another_precision_at_another_input_size(dtype):
    """PyTorch resizes no images of half precision on CPUs; float64 keeps its own."""
    model = catis.apply(zoo.load("tiny-6"), budget=0.5, input_size=88)
    x = torch.randn(4, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(x)
        out = model.to(dtype)(x.to(dtype))
    assert out.dtype == dtype
    assert (torch.nn.functional.cosine_similarity(out.float(), expected) > 0.98).all()


@pytest.mark.parametrize("method", METHODS)
def test_training_with_and_without_checkpointing(method):
    model = reduced(method).train()
    x = images(model)
    gradients = []
    for checkpointing in (False, True):
        model.set_grad_checkpointing(checkpointing)
        model.zero_grad()
        model(x).square().mean().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    assert all(torch.isfinite(gradient).all() for gradient in gradients[0])
    assert model.blocks[0].attn.qkv.weight.grad.abs().sum() > 0
    for plain, checkpointed in zip(*gradients, strict=True):
        torch.testing.assert_close(checkpointed, plain)


def test_training_with_stochastic_parts():
    torch.manual_seed(0)
    import timm

    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=64, depth=3, drop_path_rate=0.3, proj_drop_rate=0.1, attn_drop_rate=0.1,
        patch_drop_rate=0.25,
    ).train()  # fmt: skip
    catis.apply(model, "catis", r=2)
    model(torch.randn(2, 3, 64, 64)).mean().backward()
    assert model.blocks[2].mlp.fc1.weight.grad is not None


def test_data_parallel_replicas():
    """nn.DataParallel copies a module's __dict__ into a new object of its class; a replica must answer alike."""
    model = reduced("catis")
    replica = model._replicate_for_data_parallel()
    for name, child in model._modules.items():
        replica._modules[name] = child
    for name, parameter in model._parameters.items():
        setattr(replica, name, parameter)
    x = images(model)
    with torch.no_grad():
        assert torch.equal(replica(x), model(x))


def test_settings_cannot_be_changed_in_place():
    model = reduced("tome")
    assert isinstance(model.catis_reduction, Reduction)
    with pytest.raises(AttributeError):
        model.catis_reduction.prop_attn = False


def test_forward_keeps_nothing_on_the_model():
    model = reduced("catis")
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    model(images(model))
    catis.trace(model, images(model))
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before


def test_prop_attn_is_a_switch():
    model, x = build("vit"), None
    x = images(model)
    with torch.no_grad():
        with_size, without = (catis.apply(model, "tome", r=5, prop_attn=flag)(x) for flag in (True, False))
    assert not torch.equal(with_size, without)


@pytest.mark.parametrize("name", ["norm1", "attn.q_norm", "attn.proj_drop", "ls1", "drop_path2", "mlp"])
def test_hooks_on_the_modules_inside_a_block_fire(name):
    """Modules that do nothing are skipped, but not once somebody listens to them."""
    model = reduced("tome")
    seen = []
    handle = model.blocks[1].get_submodule(name).register_forward_hook(lambda *called: seen.append(name))
    with torch.no_grad():
        expected = model(images(model))
        assert seen == [name]
        handle.remove()
        assert torch.equal(model(images(model)), expected)
    assert seen == [name]


def test_global_hooks_see_idle_modules_too():
    model = reduced("tome")
    seen = set()
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, *_: seen.add(module))
    try:
        with torch.no_grad():
            model(images(model))
    finally:
        handle.remove()
    assert model.blocks[0].ls1 in seen


@pytest.mark.parametrize("family", ["vit", "deit3", "deit-distilled", "gap", "siglip-map"])
def test_an_empty_batch_has_vanillas_result(family):
    model = build(family)
    empty = images(model, batch=0)
    expected = model(empty), model.forward_features(empty)
    for method in ("catis", "tome", "mctf"):
        catis.apply(model, method, r=3)
        assert [out.shape for out in (model(empty), model.forward_features(empty))] == [out.shape for out in expected]


def test_an_empty_batch_that_vanilla_refuses_is_refused_alike():
    model = build("dinov3")
    empty = images(model, batch=0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot reshape tensor of 0 elements"):
            model(empty)
        catis.apply(model, "tome", r=3)


def test_a_call_ends_with_the_reduction_it_began_with():
    """Another thread applies and removes all the time; each result is vanilla's or that of one of two reductions."""
    model = build("vit")
    x = images(model)
    with torch.inference_mode():
        allowed = [model(x)]
        for r in (3, 5):
            catis.apply(model, "tome", r=r)
            allowed.append(model(x))
    done, problems = threading.Event(), []

    def forward():
        with torch.inference_mode():
            while not done.is_set():
                try:
                    output = model(x)
                except (AttributeError, TypeError, RuntimeError) as error:
                    problems.append(repr(error))
                    return
                if not any(torch.equal(output, logits) for logits in allowed):
                    problems.append("a result that is neither")

    threads = [threading.Thread(target=forward) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads take turns in the midst of everything
    try:
        for thread in threads:
            thread.start()
        for _ in range(100):
            catis.apply(model, "tome", r=3)
            catis.apply(model, "tome", r=5)
            catis.remove(model)
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert problems == []
