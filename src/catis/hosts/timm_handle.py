"""The host of timm: its VisionTransformer and Eva families; a part that catis does not know is refused by name."""

from __future__ import annotations

from typing import Any

from timm.data.config import resolve_data_config
from timm.layers.attention import Attention, AttentionRope
from timm.layers.attention_pool import AttentionPoolLatent
from timm.models.deit import VisionTransformerDistilled
from timm.models.eva import Eva, EvaAttention, EvaBlock
from timm.models.vision_transformer import Block, VisionTransformer
from torch import nn

from catis.core.block import Recorder
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.errors import UnsupportedModelError
from catis.hosts import timm_embed, timm_model
from catis.hosts.cost import BlockCost, BlockLinears, ModelCost, ModelFacts, linear_shapes, linears_in
from catis.hosts.handle import Handle
from catis.hosts.imagenet import imagenet_info
from catis.hosts.swap import base_class, vanilla_unless_reduced

_SUPPORTED = (
    "timm VisionTransformer (ViT, DeiT, distilled DeiT, DeiT-III, DINOv2, CLIP, SigLIP, register and average-pool "
    "variants) and Eva (EVA-02, DINOv3, PE) with plain pre-norm blocks"
)
# We run these ourselves, so a subclass that changes one would silently lose its change.
_MODEL_METHODS = ("forward", "forward_features", "forward_intermediates", "forward_head", "pool")
_BLOCKS = {VisionTransformer: (Block, (Attention,)), Eva: (EvaBlock, (EvaAttention, AttentionRope))}


class TimmHandle(Handle):
    """A timm model, or a module around one."""

    supported = _SUPPORTED

    @classmethod
    def recognises(cls, module: nn.Module) -> bool:
        """Whether it is a timm class with blocks we know."""
        return isinstance(module, (VisionTransformer, Eva))

    def inspect(self) -> ModelFacts:
        """Check every part that reduction touches, on the vanilla class."""
        model, kind = self.vit, base_class(self.vit)
        family = VisionTransformer if isinstance(model, VisionTransformer) else Eva
        _check_methods(model, kind, family)
        block_class, attention_classes = _BLOCKS[family]
        if len(model.blocks) == 0:
            raise _unsupported("a model without blocks")
        for index, block in enumerate(model.blocks):
            _check_module(block, (block_class,), f"blocks.{index}")
            _check_module(block.attn, attention_classes, f"blocks.{index}.attn")
        _check_pool(model.attn_pool)
        return ModelFacts(len(model.blocks), model.num_prefix_tokens, getattr(model, "cls_token", None) is not None)

    def reads_patches(self) -> str:
        """As the pool of the model says; dense outputs (`forward_features` and others) never leave anything out."""
        model = self.vit
        if model.attn_pool is not None:
            return f"the {type(model.attn_pool).__name__} of this model reads every token"
        if model.global_pool != "token":
            return f"global_pool={model.global_pool!r} of this model reads every token"
        return "" if model.num_prefix_tokens else "this model has no prefix tokens"

    def fixed_size(self) -> str:
        """Rotary models and dense outputs are left alone."""
        return timm_embed.fixed_size(self.vit)

    def run(self, reduction: Reduction, record: Recorder | None, *args: Any, **kwargs: Any) -> Any:
        """Forward under reduction."""
        return timm_model.forward(self.vit, reduction, *args, record=record, **kwargs)

    @classmethod
    def overrides(cls, base: Any) -> dict[str, Any]:
        """Just what touches the token sequence."""
        names = ("forward", "forward_features", "forward_intermediates")
        return {name: vanilla_unless_reduced(getattr(base, name), getattr(timm_model, name)) for name in names}

    def cost(self, input_size: tuple[int, ...] | None = None) -> ModelCost:
        """Sizes for an image of (H, W), the model's own by default."""
        model, embed = self.vit, self.vit.patch_embed
        if not hasattr(embed, "proj") or hasattr(embed, "backbone"):
            raise UnsupportedModelError(
                f"{type(embed).__name__} is no patch embedding by one convolution: its MACs are not counted"
            )
        height, width = embed.dynamic_feat_size(input_size or embed.img_size)
        pool, head = model.attn_pool, [model.head, getattr(model, "head_dist", None)]
        return ModelCost(
            num_patches=height * width,
            blocks=tuple(_cost(*block, model.embed_dim) for block in zip(model.blocks, self.linears(), strict=True)),
            embed_weights=_weights(embed),
            head_weights=_weights(*head) + (0 if pool is None else _weights(pool.q, pool.proj, pool.mlp)),
            pool_weights=0 if pool is None else _weights(pool.kv),
            pool_width=0 if pool is None else pool.num_heads * pool.head_dim * pool.latent_len,
            pool_prefix=isinstance(model, Eva) or bool(getattr(model, "pool_include_prefix", False)),
        )

    def linears(self) -> list[BlockLinears]:
        """Those of attention and MLP."""
        return [
            BlockLinears(linears_in(block.attn.modules()), linears_in(block.mlp.modules())) for block in self.vit.blocks
        ]

    def example_shape(self, batch: int) -> tuple[int, ...]:
        """(B, 3, H, W) of the size the model was built for."""
        patches = self.vit.patch_embed
        return (batch, patches.proj.in_channels, *patches.img_size)

    def preprocessing(self) -> Preprocessing:
        """What timm's configuration of the model says, at the size the model was built for."""
        config = resolve_data_config(model=self.vit)  # type: ignore[no-untyped-call]
        names = ("crop_pct", "mean", "std", "interpolation", "crop_mode")
        size = self.vit.patch_embed.img_size or config["input_size"][1:]  # none, where any size is taken
        return Preprocessing((int(size[0]), int(size[1])), **{name: config[name] for name in names})

    @property
    def name(self) -> str:
        """The name that timm.create_model takes, with the tag of its weights if there is one."""
        config = getattr(self.vit, "pretrained_cfg", None) or {}
        return ".".join(str(part) for part in (config.get("architecture"), config.get("tag")) if part)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Those of the model's configuration, such as a checkpoint of the hub brings."""
        names = (getattr(self.vit, "pretrained_cfg", None) or {}).get("label_names") or ()
        return tuple(map(str, names)) if len(names) == self.num_classes else ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Descriptions of the model's own names, or ImageNet's words where it has as many classes as an ImageNet."""
        own, words = self.class_names, imagenet_info(self.num_classes)
        if own or words is None:
            described = (getattr(self.vit, "pretrained_cfg", None) or {}).get("label_descriptions") or {}
            return tuple(described.get(name, name) for name in own)
        return tuple(words.index_to_description(place).partition(",")[0] for place in range(self.num_classes))


def _weights(*modules: nn.Module | None) -> int:
    """Weights (without biases) of all linear and convolution layers in some modules."""
    layers = (layer for module in modules if module is not None for layer in module.modules())
    return sum(layer.weight.numel() for layer in layers if isinstance(layer, (nn.Linear, nn.Conv2d)))


def _cost(block: Any, linears: BlockLinears, width: int) -> BlockCost:
    attn, attention, mlp = block.attn, linear_shapes(linears.attention), linear_shapes(linears.mlp)
    key_value = _weights(attn.k_proj, attn.v_proj) if attn.qkv is None else 2 * _weights(attn.qkv) // 3
    return BlockCost(width, attn.num_heads, attn.head_dim, attention, mlp, key_value_weights=key_value)


def _unsupported(part: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"found {part}, which catis cannot reduce rightly. Supported: {_SUPPORTED}.")


def _check_methods(model: nn.Module, kind: type[Any], family: type[Any]) -> None:
    allowed = {name: [getattr(family, name)] for name in _MODEL_METHODS}
    allowed["forward_head"].append(VisionTransformerDistilled.forward_head)  # reads prefix tokens only
    for name, functions in allowed.items():
        if name in vars(model) or getattr(kind, name) not in functions:
            raise _unsupported(f"{kind.__name__}.{name} that replaces {family.__name__}.{name}")


def _check_module(module: nn.Module, known: tuple[type[Any], ...], where: str) -> None:
    same_forward = any(type(module).forward is kind.forward for kind in known)
    if not isinstance(module, known) or not same_forward or "forward" in vars(module):
        raise _unsupported(f"{type(module).__module__}.{type(module).__name__} at {where}")


def _check_pool(pool: Any) -> None:
    if pool is None:
        return
    if type(pool).forward is not AttentionPoolLatent.forward:
        raise _unsupported(f"{type(pool).__name__} at attn_pool, which cannot weigh tokens by size")
    if pool.pos_embed is not None:
        raise _unsupported("attn_pool with position embeddings, one per token of the full grid")
