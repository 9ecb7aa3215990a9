"""Whether a plan made in single precision is the right one, judged by scores in double precision.

Two scores that differ by less than rounding may be taken in either order; everything that follows from the order taken
must be exact. So each check names a choice, and asks that no better one was passed over.
"""

import torch
from torch import Tensor

from catis.core.matching import alternate, cosine_sides
from catis.core.plan import EVICTED, Plan
from catis.core.view import BlockView, unit_length
from catis.methods.catis import Catis
from catis.methods.mctf import MCTF, multi_criteria
from catis.methods.pitome import PiToMe, energy

ROUNDING = 5e-6


def check_tome(method, view: BlockView, plan: Plan) -> None:
    scores = cosine_sides(unit_length(view.summed_keys()), view.num_prefix)
    side_a, side_b = _sides(view)
    for image, keep, removed, target in _images(plan):
        stay, size_b = keep[: len(keep) - len(side_b)], len(side_b)
        assert torch.equal(keep[-size_b:], side_b)
        source = _positions(removed, side_a)
        _check_order(scores[image], source, _positions(stay, side_a), by_token=view.num_prefix > 0)
        if plan.target is not None:  # ToFu evicts in early blocks
            _check_partners(scores[image], source, target - len(stay))


def check_pitome(method: PiToMe, view: BlockView, plan: Plan) -> None:
    unit = unit_length(view.summed_keys())
    energies = energy(unit, method.margin_at(view.block, view.depth))
    pure = method.variant(view.block, view.depth) == "pure"
    for image, keep, removed, target in _images(plan):
        order = plan.notes["score"][image].argsort(descending=True, stable=True)
        _check_falling(energies[image][order])
        used = order[: 2 * view.r] if pure else order
        side_a, side_b, protected = used[::2], used[1::2], order[len(used) :]
        scores = unit[image][side_a] @ unit[image][side_b].T
        assert torch.equal(keep[: len(protected)], protected)
        assert torch.equal(keep[len(keep) - len(side_b) :], side_b)
        stay = keep[len(protected) : len(keep) - len(side_b)]
        destination = target - len(protected) - len(stay)
        if pure:
            assert torch.equal(removed, side_a)
            _check_partners(scores, torch.arange(len(side_a)), destination)
        else:
            stay, source = _positions(stay, side_a), _positions(removed, side_a)
            _check_choice(scores, source, stay, destination, by_token=False)


def check_mctf(method: MCTF, view: BlockView, plan: Plan) -> None:
    taus = (method.tau_sim, method.tau_info, method.tau_size)
    scores = multi_criteria(view.patch_residual(), view.attention_received(), view.size, view.num_prefix, taus)
    first, second = method.directions(view.r)
    side_a, side_b = _sides(view)
    for image, keep, removed, target in _images(plan):
        num_stay = len(side_a) - first
        stay_a, stay_b = _positions(keep[:num_stay], side_a), _positions(keep[num_stay:], side_b)
        source_a, source_b = _positions(removed[:first], side_a), _positions(removed[first:], side_b)
        slot_b = torch.full((len(side_b),), EVICTED)
        slot_b[stay_b], slot_b[source_b] = torch.arange(num_stay, len(keep)), target[first:]
        _check_order(scores[image], source_a, stay_a, by_token=view.num_prefix > 0)
        # a token may have gone to any best B whose place is the target: that B itself may have moved on
        reached = torch.where(slot_b == target[:first, None], scores[image][source_a], float("-inf")).amax(1)
        assert bool((scores[image][source_a].amax(1) - reached <= ROUNDING).all())
        back = scores[image][stay_a].T
        if second:
            _check_choice(back, source_b, stay_b, target[first:], by_token=False)
        else:
            assert torch.equal(stay_b, torch.arange(len(side_b)))


def check_catis(method: Catis, view: BlockView, plan: Plan) -> None:
    unit = unit_length(view.summed_keys())
    tau = torch.tensor(method.tau, dtype=torch.float32)
    for image, keep, removed, target in _images(plan):
        score = plan.notes["score"][image]  # its distance to the score in double precision is checked elsewhere
        assert torch.equal(keep, keep.sort().values)
        pool, evictable = (score.abs() <= tau).nonzero()[:, 0], (score < -tau).nonzero()[:, 0]
        side_a, side_b = pool[::2], pool[1::2]
        wanted = view.r - min(method.evictions(view.r), len(evictable))
        merged = target != EVICTED
        count = min(wanted, len(side_a) if len(side_b) else 0)
        assert merged.tolist() == [True] * count + [False] * (view.r - count)
        source = _positions(removed[:count], side_a)
        rest = torch.tensor([i for i in range(len(side_a)) if i not in source.tolist()], dtype=torch.long)
        destination = _positions(keep[target[:count]], side_b)
        if count:
            _check_choice(unit[image][side_a] @ unit[image][side_b].T, source, rest, destination, by_token=True)
        taken = {*removed[:count].tolist(), *keep[target[:count]].tolist()}
        free = [token for token in score.argsort(stable=True).tolist() if token not in taken]
        assert removed[count:].tolist() == free[: view.r - count]


def _images(plan: Plan):
    target = torch.full_like(plan.removed, EVICTED) if plan.target is None else plan.target
    return zip(range(len(plan.keep)), plan.keep, plan.removed, target, strict=True)


def _sides(view: BlockView) -> tuple[Tensor, Tensor]:
    tokens = torch.arange(view.num_patches)
    side_a, side_b = alternate(view.num_prefix)
    return tokens[side_a], tokens[side_b]


def _positions(tokens: Tensor, side: Tensor) -> Tensor:
    """Where tokens stand within a side; all of them must be of that side."""
    places = {token: place for place, token in enumerate(side.tolist())}
    assert set(tokens.tolist()) <= set(places), "a token of another side"
    return torch.tensor([places[token] for token in tokens.tolist()], dtype=torch.long)


def _check_choice(scores: Tensor, source: Tensor, survivor: Tensor, destination: Tensor, by_token: bool) -> None:
    """Sources are the best rows, best first; each goes to its best column; survivors stand in order."""
    _check_partners(scores, source, destination)
    _check_order(scores, source, survivor, by_token)


def _check_partners(scores: Tensor, source: Tensor, destination: Tensor) -> None:
    reached = scores[source].gather(1, destination[:, None])[:, 0]
    assert bool((scores[source].amax(1) - reached <= ROUNDING).all()), "a better partner was passed over"


def _check_order(scores: Tensor, source: Tensor, survivor: Tensor, by_token: bool) -> None:
    best = scores.amax(1)
    assert torch.equal(torch.cat([source, survivor]).sort().values, torch.arange(len(best)))
    _check_falling(best[source])
    if len(survivor) and len(source):
        assert best[source].min() >= best[survivor].max() - ROUNDING, "a better edge was passed over"
    if by_token:
        assert torch.equal(survivor, survivor.sort().values)
    else:
        _check_falling(best[survivor])


def _check_falling(values: Tensor) -> None:
    assert bool((values[1:] - values[:-1] <= ROUNDING).all()), "not in descending order"


CHECKS = {"tome": check_tome, "tofu": check_tome, "pitome": check_pitome, "mctf": check_mctf, "catis": check_catis}
