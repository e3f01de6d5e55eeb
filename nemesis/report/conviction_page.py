"""The page of a history of another system: the verdict, and a picture of each object that is not linearizable.

Owns the making of HTML of ``conviction``'s values, without a drawing library: a page weighs what it shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemesis.formats.operation_text import shown as value_shown
from nemesis.linearizability.evidence import EVIDENCE_MAX, clearest
from nemesis.linearizability.judgement import KeyJudgement
from nemesis.linearizability.model import Model
from nemesis.linearizability.operations import Operation
from nemesis.report.conviction import Conviction, conviction_of
from nemesis.report.template import VERDICT_WORDS, environment
from nemesis.verdict import Verdict

REASONS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the page says of the whole history; counts are of objects."""

    name: str
    model: str
    verdict: Verdict
    objects: int
    valid: int
    invalid: int
    unknown: int
    reasons: Sequence[str]
    convictions: Sequence[Conviction]
    convictions_left_out: int


def write_conviction_page(
    target: Path,
    name: str,
    model: Model,
    judgements: Sequence[KeyJudgement],
    recorded: Mapping[Hashable, Sequence[Operation]],
) -> None:
    """Write the page of a history to ``target``; ``recorded`` are the operations on each of the objects, by their keys.

    Raises ``OSError`` where it cannot be written.
    """
    counts = Counter(judgement.verdict for judgement in judgements)
    invalid = clearest(judgements, EVIDENCE_MAX)
    unknown = [f"{_name(found.key)}: {found.reason}" for found in judgements if found.reason is not None]
    verdict = next((each for each in (Verdict.INVALID, Verdict.UNKNOWN) if counts[each]), Verdict.VALID)
    shown = [conviction_of(found, recorded[found.key], model, _name(found.key)) for found in invalid]
    page = Page(
        name=name,
        model=model.name,
        verdict=verdict,
        objects=len(judgements),
        valid=counts[Verdict.VALID],
        invalid=counts[Verdict.INVALID],
        unknown=counts[Verdict.UNKNOWN],
        reasons=unknown[:REASONS_MAX],
        convictions=shown,
        convictions_left_out=counts[Verdict.INVALID] - len(shown),
    )
    sign, word, _ = VERDICT_WORDS[verdict]
    html = (
        environment().get_template("conviction.html.j2").render(page=page, sign=sign, word=word, judged_as=model.name)
    )
    target.write_text(html, encoding="utf-8", errors="backslashreplace")


def _name(key: Hashable) -> str:
    return "The object" if key is None else f"Object {value_shown(key)}"
