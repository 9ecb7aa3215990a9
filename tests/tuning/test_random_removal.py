"""Random removal: exact, the same for an image whatever its neighbours, other tokens in other blocks and seeds."""

import torch

import catis
from catis.tuning.random_removal import RandomRemoval, _order


def test_an_image_loses_the_same_tokens_in_any_company(model, pair):
    with catis.applied(model, RandomRemoval(), r=9), torch.inference_mode():
        together, alone = model(pair[0]), model(pair[0][3:4])
        tokens = [block.tokens_left for block in catis.trace(model, pair[0][:2])]
    torch.testing.assert_close(together[3:4], alone)
    assert tokens == [144 - 9 * block for block in range(1, 7)]


def test_seeds_and_blocks_differ():
    assert sorted(_order(0, 0, 50)) == list(range(50))
    assert len({_order(seed, block, 50) for seed in range(3) for block in range(4)}) == 12
    assert _order(0, 0, 5) == _order.__wrapped__(0, 0, 5)


def test_it_is_no_sixth_method():
    assert "random" not in catis.list_methods()
