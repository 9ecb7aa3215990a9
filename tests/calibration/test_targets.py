"""What merged tokens should be: means of vanilla's, by the weights and with the norms that the method gave them."""

import torch

from catis.calibration.targets import group_means
from catis.core.state import TokenState


def test_where_norms_were_restored_the_target_has_the_mean_norm_of_its_patches():
    generator = torch.Generator().manual_seed(0)
    vanilla = torch.randn(2, 1 + 6, 8, generator=generator)
    shares = torch.rand(2, 6, generator=generator)
    state = TokenState(1, provenance=torch.tensor([[0, 0, 1, -1, 1, 2], [2, 1, 0, 0, 0, -1]]))
    plain = group_means(vanilla, state, 3, shares)
    restored = group_means(vanilla, state, 3, shares, restore_norm=True)
    assert torch.equal(restored[:, 0], vanilla[:, 0])
    for image in range(2):
        for token in range(3):
            group = state.provenance[image] == token
            norms, part = vanilla[image, 1:][group].norm(dim=-1), shares[image][group]
            torch.testing.assert_close(restored[image, 1 + token].norm(), (norms * part).sum() / part.sum())
            cosine = torch.cosine_similarity(restored[image, 1 + token], plain[image, 1 + token], dim=0)
            torch.testing.assert_close(cosine, torch.tensor(1.0))


def test_a_token_that_stands_for_no_patch_has_no_target():
    state = TokenState(0, provenance=torch.tensor([[0, -1]]))
    targets = group_means(torch.ones(1, 2, 4), state, 2, restore_norm=True)
    assert torch.equal(targets, torch.tensor([[[1.0] * 4, [0.0] * 4]]))
