"""What the source says of a name in a module or a class: the string behind its assignment."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from inspect import cleandoc, getsource
from itertools import pairwise
from types import ModuleType


def comments_of(module: ModuleType, owner: str | None = None) -> Mapping[str, str]:
    """The comments of all names in a module, or in the class ``owner`` of it."""
    body = ast.parse(getsource(module)).body
    if owner is not None:
        (body,) = (node.body for node in body if isinstance(node, ast.ClassDef) and node.name == owner)
    return dict(_comments(body))


def first_paragraph(text: str | None) -> str:
    """What a docstring begins with."""
    return cleandoc(text or "").partition("\n\n")[0]


def _comments(body: Sequence[ast.stmt]) -> list[tuple[str, str]]:
    found = []
    for node, behind in pairwise(body):
        name = _assigned(node)
        if name is not None and isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
            found.append((name, cleandoc(str(behind.value.value))))
    return found


def _assigned(node: ast.stmt) -> str | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return None
