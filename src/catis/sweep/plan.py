"""Reads a plan file: models, methods, amounts, data, defaults and what to leave out, each checked as it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from catis.core.reduction import VANILLA, Reduction
from catis.core.schedule import Schedule
from catis.data.corruptions import CORRUPTIONS
from catis.recipes import load_recipe
from catis.registry import create_method
from catis.runs.data_names import SEVERITIES, SHIFTED, ZOO
from catis.runs.spec import CORRUPTED, PRECISIONS, DataSpec, ModelSpec
from catis.sweep.entries import Exclude, MethodEntry, ModelEntry, Plan, RunDefaults
from catis.sweep.table import Table, read_table

SETS = ("imagenet", *SHIFTED, CORRUPTED)


def read_plan(file: str | Path) -> Plan:
    """Read a plan file and check all that can be checked without building a model or opening an image.

    Example:
        >>> import os, tempfile
        >>> file = Path(tempfile.mkdtemp()) / "plan.toml"
        >>> lines = "r = [4, 8]", 'methods = ["tome"]', 'data = ["zoo-clean"]', 'models.small.name = "tiny-6"'
        >>> _ = file.write_text(os.linesep.join(lines))
        >>> [str(amount) for amount in read_plan(file).amounts]
        ['4', '8']
    """
    root = read_table(Path(file))
    plan = Plan(
        file=root.file,
        store=root.place("store") or root.file.parent / "runs",
        models=_models(root),
        methods=tuple(entry for table in root.entries("methods") for entry in _methods(table)),
        amounts=_amounts(root) or (),
        data=tuple(spec for table in root.entries("data") for spec in _data(table)),
        excludes=tuple(_exclude(table) for table in root.entries("exclude")),
        defaults=_defaults(root.table("run")),
    )
    root.close()
    if not plan.data:
        raise root.error("data", 'is missing; expected at least one, as in data = ["zoo-clean"] or [[data]]')
    _refuse_twice(root, "methods", [(method.label, method.amounts) for method in plan.methods])
    _refuse_twice(root, "data", [(spec.title, spec) for spec in plan.data])
    return plan


def _models(root: Table) -> tuple[ModelEntry, ...]:
    named = root.table("models")
    if not named.keys():
        raise root.error("models", 'is missing; expected at least one, as in [models.vit-s] with name = "..."')
    return tuple(_model(label, named.table(label)) for label in named.keys())  # noqa: SIM118


def _model(label: str, table: Table) -> ModelEntry:
    checkpoint = table.place("checkpoint")
    spec = _checked(
        table,
        "",
        ModelSpec,
        name=table.take("name", str, label),
        checkpoint=None if checkpoint is None else str(checkpoint),
        pretrained=table.take("pretrained", bool, False),
        settings=table.take("settings", dict, {}),
        img_size=table.whole("img_size", None, low=1),
        crop_pct=table.take("crop_pct", float, None),
        mean=_channels(table, "mean"),
        std=_channels(table, "std"),
        interpolation=table.take("interpolation", str, None),
    )
    entry = ModelEntry(label, spec, _amounts(table), table.whole("limit", None, low=1))
    table.close()
    if spec.checkpoint and spec.pretrained:
        raise table.error("pretrained", "is true beside a checkpoint: the weights can come from one place only")
    if spec.crop_pct is not None and not 0 < spec.crop_pct <= 1:
        raise table.error("crop_pct", f"{spec.crop_pct}: expected a number above 0, at most 1")
    return entry


def _channels(table: Table, key: str) -> tuple[float, float, float] | None:
    values = table.spread(key, float)
    if values and len(values) != 3:
        raise table.error(key, f"{values}: expected three numbers, for red, green and blue")
    return (values[0], values[1], values[2]) if values else None


def _methods(table: Table) -> list[MethodEntry]:
    if "recipe" in table.keys():  # noqa: SIM118
        return [_recipe(table)]
    name = table.take("name", str)
    fixed, grid = table.take("options", dict, {}), table.table("grid")
    amounts, prop_attn = _amounts(table), table.take("prop_attn", bool, True)
    table.close()
    if name == VANILLA:
        return []  # always run, so naming it changes nothing
    choices = [[(key, value) for value in grid.take(key, list)] for key in grid.keys()]  # noqa: SIM118
    return [_method(table, name, fixed | dict(choice), prop_attn, amounts) for choice in product(*choices)]


def _method(
    table: Table, name: str, options: dict[str, Any], prop_attn: bool, amounts: tuple[Schedule, ...] | None
) -> MethodEntry:
    method = _checked(table, "", create_method, name, **options)
    words = [name, *(f"{key}={value}" for key, value in options.items()), *([] if prop_attn else ["prop_attn=False"])]
    return MethodEntry(" ".join(words), Reduction(method, prop_attn=prop_attn), amounts)


def _recipe(table: Table) -> MethodEntry:
    """A recipe in place of a method with its amounts: a path relative to the plan, or a name that comes with catis."""
    given, beside = table.take("recipe", str), table.place("recipe")
    source = given if beside is None or not beside.exists() else beside
    label = table.take("name", str, given)
    table.close()
    recipe = _checked(table, "recipe", load_recipe, source)
    return MethodEntry(label, recipe.reduction, from_recipe=True, correction=recipe.correction)


def _data(table: Table) -> list[DataSpec]:
    name, root, class_map = table.take("name", str), table.place("root"), table.place("class_map")
    limit, seed = table.whole("limit", None, low=1), table.whole("seed", 0)
    corruptions = table.spread("corruption", str, allowed=(*CORRUPTIONS, "all"))
    severities = table.spread("severity", int, allowed=SEVERITIES)
    table.close()
    if bool(corruptions) != bool(severities):
        raise table.error("severity" if corruptions else "corruption", "is missing: the two are given together")
    views = product(CORRUPTIONS if "all" in corruptions else corruptions, severities) if corruptions else [(None, None)]
    _check_name(table, name, root, bool(corruptions))
    places = {"root": root and str(root), "class_map": class_map and str(class_map)}
    return [
        _checked(table, "", DataSpec, name, limit=limit, corruption=corruption, severity=severity, seed=seed, **places)
        for corruption, severity in views
    ]


def _check_name(table: Table, name: str, root: Path | None, corrupted: bool) -> None:
    """Names of known sets decide how they are scored, so that a slip of the pen must not make a new set."""
    if name.startswith("zoo-") and (name not in ZOO or root is not None):
        raise table.error("name", f"{name!r}: expected one of {', '.join(ZOO)}, without a root")
    if name.startswith("imagenet") and name not in SETS:
        raise table.error("name", f"{name!r}: expected one of {', '.join(SETS)}; call a folder of your own otherwise")
    if not name.startswith("zoo-") and root is None:
        raise table.error("root", f"is missing, expected the folder of {name}; without one: {', '.join(ZOO)}")
    if name == CORRUPTED and not corrupted:
        raise table.error("corruption", 'is missing; expected "all" or names, as in corruption = ["fog", "snow"]')


def _exclude(table: Table) -> Exclude:
    model, method, data = (table.take(key, str, "*") for key in ("model", "method", "data"))
    entry = Exclude(model, method, data, _amount(table, "r", table.raw("r")))
    table.close()
    if not table.keys():
        raise table.error("", "is empty and would leave out everything; expected model, method, data or r")
    return entry


def _defaults(table: Table) -> RunDefaults:
    usual = RunDefaults()
    defaults = RunDefaults(
        batch_size=table.whole("batch_size", usual.batch_size, low=1),
        precision=table.take("precision", str, usual.precision, PRECISIONS),
        device=table.take("device", str, usual.device),
        compile=table.take("compile", bool, usual.compile),
        seed=table.whole("seed", usual.seed),
        on_error=table.take("on_error", str, usual.on_error, ("skip", "raise")),
        threads=table.whole("threads", usual.threads, low=1),
    )
    table.close()
    return defaults


def _amounts(table: Table) -> tuple[Schedule, ...] | None:
    """The amounts of a table: `r`, one or a list of which each may be a list with one entry per block, and `budget`."""
    value, shares = table.raw("r"), table.spread("budget", float)
    items = value if isinstance(value, list) else [] if value is None else [value]
    amounts = [_amount(table, f"r[{i}]", item) for i, item in enumerate(items)]
    amounts += [_checked(table, "budget", Schedule.of_budget, share) for share in shares]
    return tuple(amounts) or None if value is None else tuple(amounts)


def _amount(table: Table, key: str, value: Any) -> Any:
    """One amount in TOML's spelling: 13, 0.1, [16, 12, ...] or { r = 8, inflect = -1 }."""
    if isinstance(value, dict):
        inner = Table(value, table.file, f"{table.path}.{key}".lstrip("."))
        value = {"r": inner.take("r", int), "inflect": inner.take("inflect", float)}
        inner.close()
    return None if value is None else _checked(table, key, Schedule.from_json, value)


def _checked(table: Table, key: str, make: Callable[..., Any], *values: Any, **arguments: Any) -> Any:
    """Call something that checks its arguments, and say where in the plan they are written if it refuses."""
    try:
        return make(*values, **arguments)
    except (ValueError, OSError) as error:
        raise table.error(key, str(error)) from error


def _refuse_twice(root: Table, key: str, entries: Sequence[tuple[str, Any]]) -> None:
    for place, entry in enumerate(entries):
        if entry in entries[:place]:
            raise root.error(key, f"{entry[0]} is there twice")
