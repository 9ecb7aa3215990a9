"""A second, slow opinion: whole reduced timm forward passes with plain Python lists, one image at a time.

Written from SPEC 3-4 and BASELINES 1.1 alone, sharing no code with the package: groups are lists of token numbers,
sets are Python sets, nothing is batched.
"""

import math

import torch
from timm.layers.pos_embed_sincos import apply_rot_embed_cat
from timm.models.eva import Eva
from torch import Tensor


def forward(model, images: Tensor, decide, r: int, prop_attn: bool = True) -> Tensor:
    return torch.cat([_forward_one(model, images[i : i + 1], decide, r, prop_attn) for i in range(len(images))])


def _forward_one(model, image, decide, r, prop_attn):
    eva = isinstance(model, Eva)
    embedded = model._pos_embed(model.patch_embed(image))
    x, rope = embedded if eva else (embedded, None)
    x = model.norm_pre(x)[0]
    prefix = model.num_prefix_tokens
    sizes = [1.0] * (len(x) - prefix)
    memory: dict = {}
    places = list(range(len(sizes)))  # where each token sits, for rotary positions
    for layer, block in enumerate(model.blocks):
        x, places, sizes = _block(block, x, rope, places, sizes, prefix, layer, decide, r, prop_attn, memory, model)
    x = model.norm(x)
    weights = torch.tensor(sizes, dtype=x.dtype)
    if model.attn_pool is not None and eva:  # Eva's pool reads prefix tokens too
        pooled = _latent_pool(model.attn_pool, x, torch.cat([torch.ones(prefix, dtype=x.dtype), weights]))
    elif model.attn_pool is not None:
        pooled = _latent_pool(model.attn_pool, x[prefix:], weights)
    elif model.global_pool == "avg":
        pooled = (x[prefix:] * weights[:, None]).sum(0) / weights.sum()
    elif hasattr(model, "head_dist"):
        return ((model.head(x[0]) + model.head_dist(x[1])) / 2)[None]
    else:
        pooled = x[0]
    return model.head(model.fc_norm(pooled))[None]


def _block(block, x, rope, places, sizes, prefix, layer, decide, r, prop_attn, memory, model):
    attn = block.attn
    z = block.norm1(x)
    q, k, v = _qkv(attn, z)
    q, content = attn.q_norm(q), attn.k_norm(k)
    k = content
    if rope is not None:
        rope = rope[layer] if model.rope_mixed else rope  # (H, N, D) or (N, D)
        q, k = (_rotate(attn, tokens, rope[..., places, :], prefix) for tokens in (q, k))
    logits = q @ k.transpose(1, 2) * attn.scale
    if prop_attn:
        logits = logits + torch.tensor([0.0] * prefix + [math.log(size) for size in sizes], dtype=x.dtype)
    weights = logits.softmax(-1)
    out = (weights @ v).permute(1, 0, 2).flatten(1)
    out = attn.proj(attn.norm(out))
    scale1, scale2 = _scales(block)
    h = x + scale1(out)
    cls = weights[:, 0, prefix:].mean(0) if model.cls_token is not None else None
    seen = {"z": z[prefix:], "k": content.mean(0)[prefix:], "cls": cls, "layer": layer, "prefix": prefix}
    groups, _ = decide(seen, min(r, len(sizes) // 2), memory)
    tokens = [h[i] for i in range(prefix)]
    for group in groups:
        total = sum(sizes[i] for i in group)
        tokens.append(sum(h[prefix + i] * sizes[i] for i in group) / total)
    places = [places[group[0]] for group in groups]  # the destination's position
    sizes = [sum(sizes[i] for i in group) for group in groups]
    if cls is not None:
        carried = torch.stack([cls[torch.tensor(group)].sum() for group in groups]) / cls.sum()
        memory["cls"] = carried / carried.sum()
    h = torch.stack(tokens)
    return h + scale2(block.mlp(block.norm2(h))), places, sizes


def _qkv(attn, z):
    if getattr(attn, "q_bias", None) is not None:
        qkv = z @ attn.qkv.weight.T + torch.cat([attn.q_bias, attn.k_bias, attn.v_bias])
    elif attn.qkv is None:
        qkv = torch.cat([attn.q_proj(z), attn.k_proj(z), attn.v_proj(z)], -1)
    else:
        qkv = attn.qkv(z)
    return qkv.view(len(z), 3, attn.num_heads, -1).permute(1, 2, 0, 3).unbind(0)


def _rotate(attn, tokens, rope, prefix):
    rotated = apply_rot_embed_cat(tokens[:, prefix:], rope, half=attn.rotate_half)
    return torch.cat([tokens[:, :prefix], rotated], 1)


def _scales(block):
    if hasattr(block, "ls1"):
        return block.ls1, block.ls2
    gammas = [1.0 if gamma is None else gamma for gamma in (block.gamma_1, block.gamma_2)]
    return (lambda update: gammas[0] * update), (lambda update: gammas[1] * update)


def _latent_pool(pool, patches, weights):
    q = pool.q(pool.latent[0]).view(-1, pool.num_heads, pool.head_dim)
    k, v = pool.kv(patches).view(len(patches), 2, pool.num_heads, pool.head_dim).unbind(1)
    logits = torch.einsum("lhd,nhd->hln", q, k) * pool.scale + weights.log()
    out = torch.einsum("hln,nhd->lhd", logits.softmax(-1), v).flatten(1)
    out = pool.proj(out)
    return (out + pool.mlp(pool.norm(out)))[0]


def _cosine(k, i, j):
    return float(k[i] @ k[j] / (k[i].norm() * k[j].norm()))


def tome(seen, r, memory):
    """BASELINES 1.1: even positions give to odd ones; output [surviving A, B]."""
    k, prefix = seen["k"], seen["prefix"]
    side_a = [i for i in range(len(k)) if (i + prefix) % 2 == 0]
    side_b = [i for i in range(len(k)) if (i + prefix) % 2 == 1]
    best = {i: max(side_b, key=lambda j: _cosine(k, i, j)) for i in side_a}
    ranked = sorted(side_a, key=lambda i: -_cosine(k, i, best[i]))
    sources = ranked[:r]
    survivors = sorted(ranked[r:]) if prefix else ranked[r:]
    groups = [[i] for i in survivors] + [[j] + [i for i in sources if best[i] == j] for j in side_b]
    return groups, []


def make_catis(gamma=0.5, w_cls=0.5, tau=1.0, evict_ratio=0.5, l_start=2):
    """SPEC 4, CATIS 1-5."""

    def decide(seen, r, memory):
        z, k, cls = seen["z"], seen["k"], seen["cls"]
        score = _catis_score(z, cls, seen["layer"], memory, gamma, w_cls, l_start)
        everyone = range(len(z))
        evictable = [i for i in everyone if score[i] < -tau]
        pool = [i for i in everyone if -tau <= score[i] <= tau]
        r_e = min(math.floor(evict_ratio * r), len(evictable))
        evicted = sorted(evictable, key=lambda i: score[i])[:r_e]
        side_a, side_b = pool[0::2], pool[1::2]
        best = {i: max(side_b, key=lambda j: _cosine(k, i, j)) for i in side_a} if side_b else {}
        sources = sorted(best, key=lambda i: -_cosine(k, i, best[i]))[: r - r_e]
        destinations = {best[i] for i in sources}
        left = [i for i in everyone if i not in evicted and i not in sources]
        left.sort(key=lambda i: (i not in evictable, i in destinations, score[i]))
        evicted += left[: r - len(evicted) - len(sources)]
        groups = [[i] + [j for j in sources if best[j] == i] for i in everyone if i not in evicted and i not in sources]
        return groups, evicted

    return decide


def _catis_score(z, cls, layer, memory, gamma, w_cls, l_start):
    mean, sigma = z.mean(0), z.std(0, correction=0)
    nf = _standard((((z - mean) / sigma)[:, sigma > 1e-12]).norm(dim=1))
    if cls is None or layer < l_start:
        return nf.tolist()
    now = cls / cls.sum()
    before = memory.get("cls")
    context = now if before is None else (1 + gamma) * now - gamma * before
    return (w_cls * _standard(context) + (1 - w_cls) * nf).tolist()


def _standard(values):
    spread = values.std(correction=0)
    constant = spread <= 1e-12 * values.abs().max()
    return torch.zeros_like(values) if constant else (values - values.mean()) / spread
