"""A recipe as a value: a reduction, calibrated weights, and what people should know of it; to and from plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from catis.core.per_block import PerBlock
from catis.core.reduction import Reduction
from catis.hosts.correction import Correction
from catis.recipes.made import Made

VERSION = 4
"""Of the format. Files without a version are of the first: no calibrated weights, and `model` is a text. Those of the
second know nothing of norms: no merged token got one. In those of the third no attention got softer, and the size term
of `cluster` had one gain in all blocks."""
_GAIN_THEN = 0.7
"""That gain; a method that softens attention by itself is `cluster`."""
_ABOUT = ("version", "model", "preprocessing", "labels", "notes", "made", "weights")


@dataclass(frozen=True)
class Recipe:
    """What `catis.apply` puts on a model, and what people should know of it.

    Attributes:
        reduction: The reduction.
        model: Class it was made for; for people, not checked.
        name: What the model is called, if it has a name; for people, not checked.
        preprocessing: How the model wants its images, the fields of `catis.data.preprocessing.Preprocessing`; for
            whoever runs the model without catis, not read by `apply`.
        labels: What its classes are called, in order; empty if the model does not say.
        notes: Anything worth keeping with it; not read by `apply`.
        made: How it came about; None if nobody said.
        correction: Calibrated weights, which belong to the weights of one model.
        where: File it was read from, with which errors begin.

    Example:
        >>> Recipe(Reduction.of("tome", r=8)).to_json()["r"]
        8
    """

    reduction: Reduction
    model: str = ""
    name: str = ""
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    made: Made | None = None
    correction: Correction | None = None
    where: str = field(default="", compare=False)

    @classmethod
    def from_json(cls, content: Any, where: str = "recipe", correction: Correction | None = None) -> Recipe:
        """A recipe from plain data: the keys of a reduction, beside those that are about it.

        Args:
            content: What `to_json` gives, of this version or an older one.
            where: Where it is written, for errors.
            correction: The calibrated weights that its key `weights` names; `load_recipe` reads them.

        Raises:
            ValueError: The content is not a recipe; the message begins with `where`.
        """
        if not isinstance(content, Mapping) or "method" not in content:
            raise ValueError(f"{where} is not a recipe: expected a mapping with at least the keys method and r")
        _check_about(content, where)
        if content.get("weights") is not None and correction is None:
            raise ValueError(f"{where} names calibrated weights, which are read from a file beside the recipe only")
        named = content.get("model", "")
        about = {"class": named, "name": ""} if isinstance(named, str) else {"class": "", "name": "", **named}
        made = content.get("made")
        reduction = _reduction({name: value for name, value in content.items() if name not in _ABOUT}, where)
        if content.get("version") in (2, 3):
            reduction = _as_then(reduction, content["version"])
            correction = correction and replace(
                correction, reduction=_as_then(correction.reduction, content["version"])
            )
        return cls(
            reduction=reduction,
            model=about["class"],
            name=about["name"],
            preprocessing=content.get("preprocessing", {}),
            labels=tuple(content.get("labels", ())),
            notes=content.get("notes", {}),
            made=None if made is None else Made.from_json(made, where),
            correction=correction,
            where=where,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, the inverse of `from_json`; calibrated weights are not in it."""
        return {
            "version": VERSION,
            **self.reduction.to_json(),
            "model": {"class": self.model, "name": self.name},
            "preprocessing": dict(self.preprocessing),
            "labels": list(self.labels),
            "made": None if self.made is None else self.made.to_json(),
            "notes": dict(self.notes),
        }


def _check_about(content: Mapping[str, Any], where: str) -> None:
    """Refuse a version of the future, and what is not of the kind that it should be."""
    version = content.get("version", 1)
    if version not in range(1, VERSION + 1) or isinstance(version, bool):
        raise ValueError(f"{where} has version {version!r}: this catis reads 1 to {VERSION}; a newer one may read it")
    for name in ("preprocessing", "notes"):
        if not isinstance(content.get(name, {}), Mapping):
            raise ValueError(f"{where}: {name} is {content[name]!r:.60}, expected a mapping")
    labels, model = content.get("labels", []), content.get("model", "")
    if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{where}: labels is {labels!r:.60}, expected a list of names")
    known = isinstance(model, Mapping) and set(model) <= {"class", "name"}
    if not isinstance(model, str) and not (known and all(isinstance(value, str) for value in model.values())):
        raise ValueError(f"{where}: model is {model!r:.60}, expected its class and its name")


def _as_then(reduction: Reduction, version: int) -> Reduction:
    """What a recipe of an older version meant, with what methods did by themselves then spelled out."""
    methods = reduction.method.methods if isinstance(reduction.method, PerBlock) else (reduction.method,)
    meant: dict[str, Any] = {}
    if version == 2 and reduction.restore_norm is None and any(method.restore_norm for method in methods):
        meant["restore_norm"] = False
    if any(method.soften for method in methods):
        gains = tuple(_GAIN_THEN if method.soften else 1.0 for method in methods)
        meant["soften"] = 0.0 if reduction.soften is None else reduction.soften
        meant["size_gain"] = (
            (gains if len(gains) > 1 else gains[0]) if reduction.size_gain is None else reduction.size_gain
        )
    return replace(reduction, **meant)


def _reduction(content: Mapping[str, Any], where: str) -> Reduction:
    try:
        return Reduction.from_json(content, where)
    except ValueError as error:
        said = str(error)
        raise ValueError(said if said.startswith(where) else f"{where}: {said}") from error
