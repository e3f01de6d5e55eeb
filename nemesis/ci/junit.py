"""A JUnit file: the form in which every CI system reads results.

Owns the form: *invalid* is a failure, *unknown* an error, so that both are red and are told apart. Source: the schema
that Jenkins' xUnit plugin documents; properties of cases as pytest writes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from nemesis.ci.cases import Case
from nemesis.ci.judged import INVALID, UNKNOWN

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, cases: Sequence[Case], *, name: str = "nemesis") -> None:
    """Write the file, whole or not at all; folders on the way to it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(junit_of(cases, name=name), encoding="utf-8")
    unfinished.replace(path)


def junit_of(cases: Sequence[Case], *, name: str = "nemesis") -> str:
    """The document; ``seconds`` are summed."""
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.outcome == INVALID for case in cases)),
        "errors": str(sum(case.outcome == UNKNOWN for case in cases)),
        "skipped": "0",
        "time": _seconds(sum(case.seconds for case in cases)),
    }
    suites = ElementTree.Element("testsuites", {"name": _text(name), **counts})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _text(name), **counts})
    for case in cases:
        _add(suite, case)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _add(suite: ElementTree.Element, case: Case) -> None:
    named = {"classname": _text(case.group), "name": _text(case.name), "time": _seconds(case.seconds)}
    element = ElementTree.SubElement(suite, "testcase", named)
    if case.properties:
        properties = ElementTree.SubElement(element, "properties")
        for name, value in case.properties.items():
            ElementTree.SubElement(properties, "property", {"name": _text(name), "value": _text(value)})
    if not case.is_passed:
        kind = "failure" if case.verdict == INVALID else "error"
        said = ElementTree.SubElement(element, kind, {"message": _text(case.message), "type": case.verdict})
        said.text = _text(case.text or case.message)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _text(text: str) -> str:
    """XML 1.0 has no form for most control characters: they become question marks."""
    return _NOT_XML.sub("?", text)
