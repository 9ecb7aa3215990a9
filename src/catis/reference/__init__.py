"""The authors' own forms of the baselines, quirks included; they reproduce their numbers."""

from __future__ import annotations

from catis.core.method import Method
from catis.methods.mctf import MCTF
from catis.methods.pitome import PiToMe
from catis.methods.tofu import ToFu
from catis.methods.tome import ToMe
from catis.reference.mctf import MCTFReference
from catis.reference.ratio import PiToMeReference, ToFuReference, ToMeReference

__all__ = ["FORMS"]

FORMS: dict[type[Method], type[Method]] = {
    ToMe: ToMeReference,
    ToFu: ToFuReference,
    PiToMe: PiToMeReference,
    MCTF: MCTFReference,
}
"""What `reference=True` makes of each method."""
