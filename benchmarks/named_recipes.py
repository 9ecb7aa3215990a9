"""Makes the recipes that come with catis from those that `catis tune` wrote: `named_recipes.py ASSETS RECIPES`.

RECIPES holds MODEL/BUDGET folders, as for `tuned.py`. Numbers only: the calibrated weights are left out, and what is
said to be measured is measured again without them, on the half of the images that judges.
"""

import argparse
import re
import runpy
from dataclasses import replace
from pathlib import Path

import torch
from tuned import batches, halves

from catis import hosts
from catis.data.preprocessing import Preprocessing
from catis.recipes.files import NAMED, load_recipe, write_recipe
from catis.tuning.objective import Objective


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("recipes", type=Path)
    given = parser.parse_args()
    loader = runpy.run_path(str(given.assets / "load.py"))
    test = halves(given.assets / "images" / "imagenet1000")[1]
    for folder in sorted(given.recipes.glob("*/0.*")):
        name = folder.parent.name
        mean, std, crop = loader["PREPROCESS"][name]
        preprocessing = Preprocessing((224, 224), crop, mean, std)
        model = loader["model"](name)
        images = torch.cat(list(batches(test, preprocessing, None)))
        recipe = load_recipe(folder)
        with torch.inference_mode():
            judged = Objective(model, images, preprocessing, damaged=False).judge(
                hosts.find(model).bind(recipe.reduction)
            )
        made = replace(
            recipe.made,
            command=re.sub(r"(--checkpoint|--data|-o) (\S+)", r"\1 PATH", recipe.made.command),
            objective_after=None,
            held_out_kl=round(judged.distance, 4),
            held_out_agreement=round(100 * judged.agreement, 1),
            n_held_out=judged.n,
        )
        file = write_recipe(
            replace(recipe, correction=None, labels=(), made=made), NAMED / f"{name}@{folder.name}.json"
        )
        print(file.name, made.measured, flush=True)


if __name__ == "__main__":
    main()
