"""What a tuning gives: a recipe per budget, points of the Pareto curve with the controls, and what was tried."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from catis.diagnostics.estimates import Estimate
from catis.files import write_whole
from catis.recipes import Recipe, write_recipe
from catis.recipes.made import versions
from catis.report.page import paragraph
from catis.report.tune import answer, points_table

FILE_NAME = "tune.json"
TRIED_NAME = "tried.jsonl"


@dataclass(frozen=True)
class Point:
    """One model at one cost, judged on images that chose nothing.

    Attributes:
        kind: "tuned", "vanilla", or the name of a control.
        budget: That was asked for.
        macs_share: Multiply-adds it really costs, as a share of vanilla's.
        method: Its method.
        calibrated: Whether its weights were calibrated.
        kl: Mean KL(vanilla || reduced) of the logits, or 1 - cosine of features.
        agreement: Share of the images with vanilla's class; None without logits.
        agreement_low: Lower end of its 95 % interval.
        agreement_high: Upper end.
        n: Images.
        recipe: Folder of its recipe below the tuning's, if it has one.
    """

    kind: str
    budget: float
    macs_share: float
    method: str
    calibrated: bool
    kl: float
    agreement: float | None
    agreement_low: float | None
    agreement_high: float | None
    n: int
    recipe: str = ""


@dataclass
class Tuning:
    """The result of `catis.tune`.

    Attributes:
        model: Class of the model.
        command: What was called.
        n: Images that were fitted, that chose, and that judged.
        recipes: By budget.
        points: Tuned models and controls.
        tried: Every candidate that was looked at, with its value.
        theta: What the paper's procedure chooses for CATIS, where it was asked.
        minutes: It took.
        complete: Whether it ended by itself and not by Ctrl-C or the clock.
        said: What a reader should know, sentence by sentence.
        kept: By budget and name, patch tokens that leave each block, of the tuned model and of the controls.
        rho_s: By signal, rho_s of every block of the vanilla model, clean against corrupted images.
    """

    model: str
    command: str
    n: Mapping[str, int]
    recipes: dict[float, Recipe] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    tried: list[dict[str, Any]] = field(default_factory=list)
    theta: dict[str, Any] = field(default_factory=dict)
    minutes: float = 0.0
    complete: bool = True
    said: list[str] = field(default_factory=list)
    kept: dict[float, dict[str, list[int]]] = field(default_factory=dict)
    rho_s: dict[str, Sequence[Estimate]] = field(default_factory=dict)

    @property
    def recipe(self) -> Recipe:
        """The recipe of the smallest budget."""
        return self.recipes[min(self.recipes)]

    def to_json(self) -> dict[str, Any]:
        """Plain data: everything but the recipes, which have folders of their own."""
        told = {"model": self.model, "command": self.command, "n": dict(self.n), "minutes": round(self.minutes, 2)}
        rest = {"complete": self.complete, "said": self.said, "theta": self.theta, "versions": versions()}
        kept = {f"{budget:g}": counts for budget, counts in self.kept.items()}
        rho_s = {name: [asdict(block) for block in blocks] for name, blocks in self.rho_s.items()}
        schedules = {"kept": kept, "rho_s": rho_s}
        return {**told, **rest, **schedules, "points": [asdict(point) for point in self.points], "tried": self.tried}

    def _repr_html_(self) -> str:
        """What a notebook shows: what one gains, and the table with the controls."""
        points = [asdict(point) for point in self.points]
        return paragraph(answer(points)) + points_table(points, "Judged on images that chose nothing").html()

    def save(self, folder: Path) -> None:
        """Write the recipes and `tune.json`; each file is whole or not there."""
        folder.mkdir(parents=True, exist_ok=True)
        for point in self.points:
            if point.recipe:
                write_recipe(self.recipes[point.budget], folder / point.recipe)
        write_whole(folder / FILE_NAME, (json.dumps(self.to_json(), indent=1) + "\n").encode())
