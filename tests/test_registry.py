"""Methods of third parties, found through a real entry point of a package on the path."""

import sys

import pytest
import torch
from typer.testing import CliRunner

import catis
from catis.cli import app
from catis.registry import create_method, describe_methods
from tests.hosts.families import build, images

MINE = '''
from dataclasses import dataclass
from typing import ClassVar

import torch

from catis.core.method import Method
from catis.core.plan import Plan


@dataclass(frozen=True)
class Last(Method):
    """Evicts the last r patch tokens."""

    name: ClassVar[str] = "mine"
    unused: float = 1.5

    def plan(self, view):
        index = torch.arange(view.num_patches).expand(view.features.shape[0], -1)
        return Plan(index[:, : -view.r], index[:, -view.r :])


class NotAMethod:
    pass
'''


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a package with the given entry points on the path, as pip would."""

    def put(*points: str, package: str = "thirdparty") -> None:
        (tmp_path / f"{package}.py").write_text(MINE)
        info = tmp_path / f"{package}-2.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.1\n")
        (info / "entry_points.txt").write_text("\n".join(["[catis.methods]", *points]))
        monkeypatch.delitem(sys.modules, package, raising=False)

    monkeypatch.syspath_prepend(str(tmp_path))
    return put


def test_a_third_party_method_is_applied_by_name(install):
    install("mine = thirdparty:Last")
    model = build("vit")
    catis.apply(model, "mine", r=3)
    seen = catis.trace(model, images(model))
    assert [block.tokens_left for block in seen] == [13, 10, 7, 4]
    assert seen[-1].provenance.tolist() == [[0, 1, 2, 3] + [-1] * 12] * 2
    assert "mine" in catis.list_methods()
    assert catis.gmacs(model) < catis.gmacs(catis.remove(model))


def test_its_options_and_origin_are_listed(install):
    install("mine = thirdparty:Last")
    assert create_method("mine", unused=2.0).unused == 2.0
    found = {one.name: one for one in describe_methods()}
    assert (found["mine"].origin, dict(found["mine"].options)) == ("thirdparty 2.1", {"unused": 1.5})
    assert found["tome"].origin.startswith("catis ")
    with pytest.raises(ValueError, match="mine has no option 'tau'; its options are unused"):
        create_method("mine", tau=1)


def test_two_packages_with_one_name_are_refused(install):
    install("mine = thirdparty:Last")
    install("mine = other:Last", package="other")
    with pytest.raises(ValueError, match="'mine' is offered by several packages: other:Last, thirdparty:Last"):
        catis.apply(build("vit"), "mine", r=3)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("thirdparty:NotAMethod", "is not a subclass of catis.core.method.Method"),
        ("thirdparty:Missing", "cannot be loaded from 'thirdparty:Missing'"),
        ("nowhere_at_all:Last", "No module named 'nowhere_at_all'"),
    ],
)
def test_broken_entry_points_are_refused_and_told_in_the_list(install, point, message):
    install(f"mine = {point}")
    model = build("vit")
    with pytest.raises(ValueError, match=message):
        catis.apply(model, "mine", r=3)
    assert type(model).__name__ == "VisionTransformer"
    assert message in next(one.problem for one in describe_methods() if one.name == "mine")
    assert CliRunner().invoke(app, ["methods"]).exit_code == 0


def test_unknown_names_get_the_list():
    with pytest.raises(ValueError, match=r"method='topk': expected one of catis, cluster, mctf, pitome, tofu, tome"):
        catis.apply(build("vit"), "topk", r=3)


def test_a_built_method_needs_no_registration():
    model = catis.apply(build("vit"), create_method("catis", tau=0.5), r=3)
    with torch.no_grad():
        assert model(images(model)).shape == (2, 10)
    with pytest.raises(ValueError, match="with a built Catis: set them when you build it"):
        catis.apply(model, create_method("catis"), r=3, tau=0.5)
