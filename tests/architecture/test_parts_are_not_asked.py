"""No code asks which part it has: parts are found by their registries and asked what they do.

The syntax tree of every module is read. Outside a part's own files there is no comparison with the registered name of a
part, no isinstance of a class of settings, models, tasks, sensors or data, and no truth test of a read mode.
"""

import ast
import functools
import inspect
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from torch import nn

import glimpse
from glimpse.attention.placement import RULES
from glimpse.attention.scorers import SCORERS
from glimpse.attention.settings import ATTENTIONS, SENSORS
from glimpse.config.schema import Settings
from glimpse.data.settings import DATASETS
from glimpse.losses.estimators import ESTIMATORS
from glimpse.losses.policy_gradient import BASELINES, REWARDS
from glimpse.models.settings import ENCODERS
from glimpse.tasks.base import TASKS
from glimpse.tasks.settings import MODELS

PACKAGE = Path(glimpse.__file__).parent
REGISTRIES = (RULES, ATTENTIONS, SENSORS, DATASETS, BASELINES, ESTIMATORS, REWARDS, ENCODERS, TASKS, MODELS)
NAMES = {name for registry in REGISTRIES for name in registry} | {*SCORERS}
READ_MODES = {"mode", "read", "how"}

# Files that are about some parts by name, with the reason.
OWN = {
    "config/upgrade.py": "translates the names of older formats",
    "models/whole_image.py": "the two whole-image networks",
    "evaluation/translation_traces.py": "defines `attends`",
    "evaluation/comparison.py": "defines `attends`",
}


def modules():
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).as_posix() not in OWN]


@functools.cache
def tree(path):
    return ast.parse(path.read_text())


def compared_strings(node):
    """The strings that a comparison or a match has on either side, in a tuple too."""
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.value]
    for side in sides:
        parts = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
        yield from (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def test_no_registered_name_is_compared():
    found = [
        f"{path}:{node.lineno}: {text!r}"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Compare | ast.MatchValue)
        for text in compared_strings(node)
        if text in NAMES
    ]
    assert not found


def names_of_classes(node):
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


@functools.cache
def part_classes():
    """The names of all classes of settings, modules, tasks and data of the package."""
    for module in walk_packages(glimpse.__path__, "glimpse."):
        import_module(module.name)  # so that all subclasses are known
    from glimpse.data.base import Dataset
    from glimpse.data.captions import CaptionDataset
    from glimpse.data.sentence_pairs import PairDataset
    from glimpse.tasks.base import Task

    def below(cls):
        return {cls, *(each for child in cls.__subclasses__() for each in below(child))}

    bases = (Settings, nn.Module, Task, Dataset, CaptionDataset, PairDataset)
    found = {cls for base in bases for cls in below(base)}
    return {cls.__name__ for cls in found if inspect.getmodule(cls).__name__.startswith("glimpse.")} | {"Sensor"}


def own_classes(path):
    return {node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)}


def test_no_isinstance_of_a_part():
    found = [
        f"{path}:{node.lineno}: {name}"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("isinstance", "issubclass")
        for name in names_of_classes(node.args[1])
        if name in part_classes() - own_classes(path)
    ]
    assert not found


def test_no_truth_test_of_a_read_mode():
    def is_mode(node):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return name in READ_MODES

    found = []
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.If | ast.IfExp | ast.While):
                tests = [node.test, *(node.test.values if isinstance(node.test, ast.BoolOp) else [])]
                tests += [test.operand for test in tests if isinstance(test, ast.UnaryOp)]
                found += [f"{path}:{node.lineno}" for test in tests if is_mode(test)]
            if isinstance(node, ast.Compare) and is_mode(node.left):
                nones = [one for one in node.comparators if isinstance(one, ast.Constant) and one.value is None]
                found += [f"{path}:{node.lineno}" for _ in nones]
    assert not found
