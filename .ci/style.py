"""Check names and docstrings over the syntax tree: `python .ci/style.py [PATH...]`.

Rejects variables whose names say nothing about what they hold, docstrings that open with a
question word, and class names used twice. Prints one line per finding; exit code 1 if there is one.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "unmask"
NAMES = {"one", "given", "found", "some", "kept", "chosen", "shown", "own", "said", "known"}
QUESTION = re.compile(r"(What|Where|How|Whether|Which|Why)\b")
# `given` is conditioning, a public parameter that keeps its name on the way down; `Needs.some` is
# public too
EXCEPTIONS = {
    ("cli/score.py", "given"),
    ("constructions/needs.py", "some"),
    ("jobs/kinds/score.py", "given"),
    ("joints/joint.py", "given"),
    ("joints/lazy_orders.py", "given"),
    ("tables/conditional.py", "given"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def variables(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names that are assigned, looped over, or parameters of private functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Lambda) or (
            isinstance(node, Function) and re.match(r"_(?!_)", node.name)
        ):
            arguments = node.args
            for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
                yield argument.lineno, argument.arg


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            docstring = ast.get_docstring(node)
            if docstring:
                yield getattr(node, "lineno", 1), docstring


def findings(path: Path) -> Iterator[str]:
    """One line for each name and docstring that is rejected."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    where = path.relative_to(PACKAGE).as_posix()
    for line, name in variables(tree):
        if name.lstrip("_") in NAMES and (where, name) not in EXCEPTIONS:
            yield f"{where}:{line}: name {name!r} for what it holds"
    for line, docstring in docstrings(tree):
        if QUESTION.match(docstring):
            yield f"{where}:{line}: say what is returned or done: {docstring.splitlines()[0]}"


def repeated_classes(paths: list[Path]) -> Iterator[str]:
    """One line for each class name that several modules define."""
    homes = defaultdict(list)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path.relative_to(PACKAGE).as_posix())
    for name, modules in homes.items():
        if len(modules) > 1:
            yield f"class {name} is defined in {', '.join(modules)}"


def main(arguments: list[str]) -> int:
    """Check the package, or parts of it; the exit code."""
    roots = [Path(argument).resolve() for argument in arguments] or [PACKAGE]
    paths = [path for root in roots for path in ([root] if root.is_file() else root.rglob("*.py"))]
    lines = [line for path in sorted(paths) for line in findings(path)]
    lines += repeated_classes(sorted(PACKAGE.rglob("*.py")))
    print(*lines, sep="\n", end="\n" * bool(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
