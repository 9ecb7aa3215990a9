"""Every lever of `catis tune` can be switched off, and then nothing that is tried moves it; each is moved otherwise.

The search is the real one; what it is told of its candidates is made up, so that hundreds are looked at in a moment.
"""

import hashlib
import json
from typing import ClassVar

import pytest
import timm

from catis import hosts, zoo
from catis.core.reduction import Reduction
from catis.tuning.allowance import Allowance
from catis.tuning.candidates import LEVERS, OPERATORS, Space
from catis.tuning.costs import TRIED, enough_rows
from catis.tuning.journal import Journal
from catis.tuning.questions import Trial
from catis.tuning.search import Search
from catis.tuning.sizes import input_sizes, sizes_to_try

THETA = ("gamma", "w_cls", "tau", "evict_ratio", "l_start", "power")
DEFAULTS = {name: Reduction.of(name, r=1).options for name in OPERATORS}


@pytest.fixture(autouse=True)
def _some_work(monkeypatch):
    """Enough for all that a search does, and so much time that the clock ends none."""
    monkeypatch.setattr("catis.tuning.allowance.RATE", 0.35)


class Made:
    """Distances that depend on the candidate and on nothing else; the number of views is as it would be."""

    def used(self, views):
        return views or 64

    def value(self, reduction):
        text = json.dumps(reduction.to_json(), sort_keys=True)
        far = 0 if reduction.method.name == "cluster" else 2  # the method that leads has options and weights to choose
        return far + 0.1 + int(hashlib.sha256(text.encode()).hexdigest()[:6], 16) / 2**24


class Remembered(Space):
    """Works out the counts of a candidate once for all searches here, which are of the same model."""

    known: ClassVar = {}

    def kept(self, candidate):
        key = repr((self.budget, candidate.shape, candidate.kept, candidate.size))
        if key not in self.known:
            try:
                self.known[key] = super().kept(candidate)
            except ValueError as error:
                self.known[key] = error
        if isinstance(self.known[key], ValueError):
            raise self.known[key]
        return list(self.known[key])


@pytest.fixture(scope="module")
def space():
    return Remembered(hosts.find(zoo.load("tiny-6")), 0.5)


def searched(
    space,
    levers,
    seed=0,
    file=None,
    tell=None,
    names=OPERATORS,
    calibrated=None,
    allowed=None,
    handicaps=None,
    answer=None,
):
    """What a search with these levers looked at, and what came out."""
    made = Made()
    journal, allowance = Journal(file, {}), Allowance(60)
    if allowed is not None:
        allowed.append(allowance)
    trial = Trial(1.0, calibrated or made.value) if "calibration" in levers else None
    search = Search(
        space, made, made, journal, allowance, levers=levers, methods=names, seed=seed, trial=trial, tell=tell,
        answer=answer or (lambda questions: [made.value(question.reduction) for question in questions]),
    )  # fmt: skip
    finding = search.run(handicaps or dict.fromkeys(input_sizes(space.handle), 1.0))
    return journal.tried, finding


def methods(reduction):
    """Names and options of the methods of a reduction, one for each block or one for all."""
    if isinstance(reduction["method"], str):
        return [(reduction["method"], reduction["options"])]
    return [(entry["method"], entry["options"]) for entry in reduction["method"]]


def moved(tried):
    """Levers that some candidate has away from where they start."""
    seen = [entry["reduction"] for entry in tried]
    used = [pair for entry in seen for pair in methods(entry)]
    changed = {name for method, options in used for name in options if options[name] != DEFAULTS[method][name]}
    sizes, schedules = (
        {entry.get("input_size") for entry in seen},
        {(entry.get("input_size"), str(entry["r"])) for entry in seen},
    )
    levers = {
        "schedule": len(schedules) > len(sizes),
        "operator": {method for method, _ in used} != {"cluster"},
        "theta": bool(changed & set(THETA)),
        "weights": "pooling" in changed or any("restore_norm" in entry for entry in seen),
        "gain": any("size_gain" in entry for entry in seen),
        "size": any("input_size" in entry for entry in seen),
        "calibration": any(entry["images"] == "calibrated" for entry in tried),
    }
    return {lever for lever, found in levers.items() if found}


def test_all_are_moved(space):
    tried, _ = searched(space, LEVERS)
    assert moved(tried) == set(LEVERS)
    assert len(tried) > 60
    assert {entry["reduction"].get("restore_norm") for entry in tried} >= {None, False}  # the norm of a group too


@pytest.mark.parametrize("lever", LEVERS)
def test_one_is_left_alone_and_the_others_are_not(lever, space):
    others = [name for name in LEVERS if name != lever]
    tried, _ = searched(space, others)
    assert moved(tried) == set(others)


@pytest.mark.parametrize("names", [["catis"], ["mctf", "tome"]])
def test_only_methods_that_may_be_chosen_are_tried(names, space):
    tried, finding = searched(space, LEVERS, names=names)
    used = [pair for entry in tried for pair in methods(entry["reduction"])]
    assert {method for method, _ in used} == set(names)
    assert finding.candidate.method in names
    assert names != ["catis"] or len({str(options) for _, options in used}) > 5  # its Theta is still searched


def test_an_input_size_that_only_calibration_makes_the_best_is_chosen(space):
    """How far it is from vanilla before, beside what vanilla makes of corrupted images, does not keep it out."""
    sizes = input_sizes(space.handle)
    for best in sizes:
        _, finding = searched(space, LEVERS, calibrated=lambda reduction, best=best: reduction.input_size != best)
        assert finding.reduction.input_size == best


def test_gains_are_looked_at_at_the_input_size_that_was_chosen(space):
    """Sizes come first: a short search must not end before them, and all else depends on the size."""
    sizes = input_sizes(space.handle)
    for best in sizes:
        tried, _ = searched(space, LEVERS, calibrated=lambda reduction, best=best: reduction.input_size != best)
        gained = [entry["reduction"] for entry in tried if "size_gain" in entry["reduction"]]
        assert {reduction.get("input_size") for reduction in gained} == {best}


def test_an_input_whose_tokens_all_fit_into_the_budget_ends_the_search():
    """Then shapes, methods and gains have nothing to say."""
    space = Remembered(hosts.find(zoo.load("tiny-6")), 0.8)
    smallest = input_sizes(space.handle)[1]
    tried, finding = searched(space, LEVERS, calibrated=lambda reduction: reduction.input_size != smallest)
    assert finding.reduction.input_size == smallest
    assert not any(space.kept(finding.candidate)[block] < space.patches(smallest) for block in range(space.depth))
    assert {str(pair) for entry in tried for pair in methods(entry["reduction"])} == {
        str(("cluster", DEFAULTS["cluster"]))
    }
    assert not any("size_gain" in entry["reduction"] for entry in tried)


@pytest.mark.parametrize("levers", [LEVERS, [lever for lever in LEVERS if lever != "calibration"]], ids=len)
@pytest.mark.parametrize(("handicap", "chosen"), [(1.04, True), (1.06, False)])
def test_a_size_at_which_vanilla_is_less_sure_must_be_as_much_nearer(handicap, chosen, levers, space):
    """The smallest is 5 % nearer."""
    own, smallest, middle = input_sizes(space.handle)
    handicaps = {own: 1.0, smallest: handicap, middle: 1.0}

    def value(reduction):
        return {own: 1.05, smallest: 1.0, middle: 1.1}[reduction.input_size]

    def answer(questions):
        return [value(question.reduction) for question in questions]

    _, finding = searched(space, levers, calibrated=value, handicaps=handicaps, answer=answer)
    assert (finding.reduction.input_size == smallest) == chosen


@pytest.mark.parametrize(("chooses", "chosen"), [(0.9, True), (1.1, False)])
def test_without_calibration_the_images_that_choose_must_say_so_too(chooses, chosen, space):
    """The smallest is nearer on the images that are searched on."""
    own, smallest, middle = input_sizes(space.handle)
    known = {"search": {own: 1.0, smallest: 0.5, middle: 2.0}, "choose": {own: 1.0, smallest: chooses, middle: 2.0}}

    def answer(questions):
        return [known[question.images][question.reduction.input_size] for question in questions]

    levers = [lever for lever in LEVERS if lever != "calibration"]
    _, finding = searched(space, levers, answer=answer)
    assert (finding.reduction.input_size == smallest) == chosen


@pytest.mark.parametrize(("width", "enough"), [("tiny", True), ("small", True), ("base", False)])
def test_a_wide_model_is_not_calibrated_for_a_moment_and_keeps_its_input_size(width, enough):
    """So few images do not determine its layers, with more they do; what is not calibrated is compared as it is."""
    handle = hosts.find(timm.create_model(f"vit_{width}_patch16_224", depth=1))
    assert enough_rows(handle, TRIED) == enough
    assert enough_rows(handle, 2 * TRIED)
    assert sizes_to_try(handle, LEVERS) == ([None, 192, 208] if enough else [None])
    assert sizes_to_try(handle, ["size"]) == [None, 192, 208]
    assert sizes_to_try(handle, ["calibration"]) == [None]


def test_a_size_that_is_known_to_be_the_best_is_kept_when_the_time_is_over(space):
    """The clock ends the search right after the smaller size was calibrated."""

    sizes, allowed = input_sizes(space.handle), []

    def calibrated(reduction):
        if reduction.input_size == sizes[1]:
            allowed[0].used = allowed[0].total
        return reduction.input_size != sizes[1]

    _, finding = searched(space, LEVERS, calibrated=calibrated, allowed=allowed)
    assert finding.reduction.input_size == sizes[1]


def test_nothing_may_be_chosen(space):
    """Then what a budget alone does comes out, as it is."""
    tried, finding = searched(space, [])
    assert moved(tried) == set()
    assert finding.reduction.method == Reduction.of(budget=0.5).method


def test_the_same_seed_looks_at_the_same_candidates_in_the_same_order(space):
    (first, found), (again, same), (other, _) = (
        searched(space, LEVERS),
        searched(space, LEVERS),
        searched(space, LEVERS, seed=1),
    )
    assert first == again
    assert found == same
    assert first != other


class Killed(BaseException):
    """What nobody catches, as a kill."""


def test_a_killed_search_goes_on_and_ends_where_it_would_have_ended(space, tmp_path):
    def kill(what, best):
        if "gain" in what:
            raise Killed

    levers, whole, cut = ["gain"], tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    tried, found = searched(space, levers, file=whole)
    with pytest.raises(Killed):
        searched(space, levers, file=cut, tell=kill)
    assert 0 < len(cut.read_text().splitlines()) < len(whole.read_text().splitlines())
    assert searched(space, levers, file=cut) == (tried, found)
    assert cut.read_text() == whole.read_text()  # in the same order, none twice
