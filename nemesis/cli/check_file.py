"""``nemesis check FILE``: any system's history, judged by a model in this process, without a cluster and without Java.

Owns the words of the result and its JSON. What is wrong with the file, or does not fit the model, is the fault of the
arguments: no verdict is given, for one on a part of a history would be worth nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemesis.cli.check_kafka import MODEL as KAFKA
from nemesis.cli.check_kafka import judged_as_kafka, tell_kafka
from nemesis.cli.exit import VERDICT_EXITS
from nemesis.cli.verdicts import junit_written, write_document
from nemesis.verdict import Verdict
from replica.cli.help import meant

if TYPE_CHECKING:
    from nemesis.formats.reading import ReadHistory
    from nemesis.linearizability.judgement import Counterexample, KeyJudgement
    from nemesis.linearizability.model import Model
    from nemesis.linearizability.operations import Operation

FORMATS = ("edn", "jepsen-log", "json", "porcupine-kv", "maelstrom", "parquet")
KEY_PAIRS = ("auto", "yes", "no")
VALUE_CHARS_SHOWN = 100
KEYS_TOLD_MAX = 20
"""How many keys CI is told of; the terminal has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """What was asked of a file; all None or False where nothing was."""

    model: str | None
    format: str | None
    initial: str | None
    failed_cas_is_read: bool
    key_pairs: str | None
    budget: int | None
    output: Path | None
    html: Path | None

    @property
    def names(self) -> list[str]:
        """The options that were given, as they are written."""
        given = ((name, getattr(self, name)) for name in self.__slots__)
        return [f"--{name.replace('_', '-')}" for name, value in given if value not in (None, False)]


def _model(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Look whether there is such a model, before a history is read. Where a class is, the model's own file says."""
    del context, parameter
    if value is None or ":" in value or value == KAFKA:
        return value
    known = _model_names()
    if value not in known:
        raise click.BadParameter(
            f"there is no model {value!r}{meant(value, known)}: give one of {', '.join(known)}, or the module:Class of "
            "one of your own"
        )
    return value


def _model_names() -> list[str]:
    """The models by name, and what is judged otherwise."""
    from nemesis.linearizability.models.registry import model_names

    return sorted({*model_names(), KAFKA})


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that judges files, in the order of its help."""
    options = (
        click.option(
            "--model",
            metavar="NAME",
            callback=_model,
            help=f"The model that their objects should be like, such as register or kv; {KAFKA} for logs.",
        ),
        click.option("--format", type=click.Choice(FORMATS), help="Their format. Without: as each begins."),
        click.option("--initial", metavar="VALUE", help="What a register holds at first, as EDN.  [default: nil]"),
        click.option("--failed-cas-is-read", is_flag=True, help="A failed compare-and-set met another value."),
        click.option(
            "--key-pairs", type=click.Choice(KEY_PAIRS), help="Whether values are [key value]. Without: auto."
        ),
        click.option("--budget", type=click.IntRange(1), metavar="N", help="Configurations to try for each key."),
        click.option(
            "--output",
            type=click.Path(path_type=Path),
            help="Write the result to this file as JSON; of many histories, to this folder as Parquet.",
        ),
        click.option(
            "--html",
            type=click.Path(path_type=Path),
            help="Of one history: write a page to this file, with pictures of what is wrong: objects, cycles, offsets.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def check_file(path: Path, options: FileOptions, *, junit: Path | None = None) -> int:
    """Judge the history in ``path``, print the result; returns the exit code."""
    from nemesis.formats.errors import HistoryError
    from nemesis.linearizability.model import ModelError

    if not path.is_file():
        raise click.BadParameter(f"{path} is neither a folder nor a file with an end", param_hint="FILE")
    for target, name in ((options.output, "--output"), (options.html, "--html")):
        if target is not None:
            _check_output(target, name)
    try:
        if options.model == KAFKA:
            return _check_as_kafka(path, options, junit)
        history, model, judgements = _judged(path, options)
    except HistoryError as error:
        raise click.UsageError(str(error)) from error
    except ModelError as error:
        raise click.UsageError(f"{path}: {error}; choose another --model, or --key-pairs") from error
    for judgement in judgements:
        _tell_key(judgement, model)
    _tell_summary(history, model, judgements)
    verdict = Verdict.worst(judgement.verdict for judgement in judgements)
    click.echo(f"verdict: {verdict}")
    if options.output is not None:
        write_document(options.output, _as_json(history, model, judgements, verdict, options))
    bad = [judgement for judgement in judgements if judgement.verdict.value != "valid"]
    _tell_ci(path, verdict, [_key_line(judgement) for judgement in bad[:KEYS_TOLD_MAX]], junit)
    if options.html is not None:
        with _page(options.html) as target:
            from nemesis.report.conviction import write_conviction_page

            recorded = model.partition(history.operations())
            write_conviction_page(target, history.path.name, model, judgements, recorded)
    return VERDICT_EXITS[verdict]


def _tell_ci(path: Path, verdict: str, said: Sequence[str], junit: Path | None) -> None:
    from nemesis.ci.cases import plain_case
    from nemesis.ci.telling import tell_ci

    with junit_written():
        tell_ci([plain_case(name=str(path), verdict=verdict, said=said)], junit=junit)


def _check_as_kafka(path: Path, options: FileOptions, junit: Path | None) -> int:
    """The history of a Kafka workload: what is judged are logs, and not objects by a model."""
    check_kafka_options(options)
    result, operations = judged_as_kafka(path, options.format)
    tell_kafka(result)
    if options.output is not None:
        write_document(options.output, result)
    _tell_ci(path, str(result["verdict"]), result["reasons"], junit)
    if options.html is not None:
        with _page(options.html) as target:
            from nemesis.report.conviction_kafka import write_kafka_page

            write_kafka_page(target, result, operations)
    return VERDICT_EXITS[str(result["verdict"])]


def check_kafka_options(options: FileOptions) -> None:
    """Raise UsageError for options that are about objects."""
    others = [name for name in options.names if name not in ("--model", "--format", "--output", "--html")]
    if others:
        raise click.UsageError(f"{', '.join(others)}: not with --model {KAFKA}")


def _judged(path: Path, options: FileOptions) -> tuple[ReadHistory, Model, Sequence[KeyJudgement]]:
    from nemesis.formats.keyed import KeyPairs
    from nemesis.formats.reading import read_history_file
    from nemesis.formats.recognise import Format
    from nemesis.linearizability.evidence import EVIDENCE_MAX
    from nemesis.linearizability.judgement import Budget
    from nemesis.linearizability.kernel import judge
    from nemesis.linearizability.model import check_fits

    history = read_history_file(
        path,
        format=None if options.format is None else Format(options.format),
        key_pairs=KeyPairs(options.key_pairs or KeyPairs.AUTO),
    )
    operations = history.operations()
    model = model_named(options, is_porcupine=history.format is Format.PORCUPINE_KV)
    check_fits(operations, model)
    budget = Budget() if options.budget is None else Budget(configurations=options.budget)
    judgements = judge(operations, model, budget, evidence_max=EVIDENCE_MAX)
    doubt = history.doubt
    return history, model, judgements if doubt is None else [judgement.doubted(doubt) for judgement in judgements]


def model_named(options: FileOptions, *, is_porcupine: bool = False) -> Model:
    """The model that was asked for. Raises UsageError where there is none, or it does not take the options."""
    from nemesis.linearizability.models.registry import UnknownModelError, load_model
    from nemesis.linearizability.models.text_store import TextStore

    if options.model is None:
        raise click.UsageError(f"a file is judged by a model: give --model, one of {', '.join(_model_names())}")
    if options.model == TextStore.name or (is_porcupine and options.model == "kv"):
        if options.initial is not None or options.failed_cas_is_read:
            raise click.UsageError(f"the model {TextStore.name} takes neither --initial nor --failed-cas-is-read")
        return TextStore()
    asked: dict[str, object] = {"failed_cas_is_read": True} if options.failed_cas_is_read else {}
    if options.initial is not None:
        asked["initial"] = _edn_value(options.initial)
    try:
        return load_model(options.model, **asked)
    except UnknownModelError as error:
        raise click.BadParameter(str(error), param_hint="--model") from error
    except TypeError as error:
        if not asked:
            raise click.BadParameter(f"{options.model} cannot be made: {error}", param_hint="--model") from error
        names = " or ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise click.UsageError(f"the model {options.model} does not take {names}: {error}") from error


def _edn_value(text: str) -> Hashable:
    from nemesis.formats.edn import forms_of
    from nemesis.formats.errors import HistoryError

    try:
        [form] = forms_of([text], Path("VALUE"))
    except (HistoryError, ValueError) as error:
        raise click.BadParameter(f"{text} is not one value in EDN", param_hint="--initial") from error
    return form.value


def _tell_key(judgement: KeyJudgement, model: Model) -> None:
    """One line for a key that is not valid, and the operations that show it."""
    from nemesis.formats.operation_text import described, shown

    if judgement.verdict.value == "valid":
        return
    found = judgement.counterexample
    click.echo(_key_line(judgement))
    if found is not None:
        for operation in found.operations:
            click.echo(f"  line {operation.line}: process {shown(operation.process)} {described(operation)}")
        if found.states:
            click.echo(f"  before line {found.last.line} returned: {' or '.join(_states(found, model))}")


def _key_line(judgement: KeyJudgement) -> str:
    from nemesis.formats.operation_text import shown

    found = judgement.counterexample
    reason = judgement.reason if found is None else found.reason
    key = "" if judgement.key is None else f" {shown(judgement.key)}"
    return f"key{key}: {judgement.verdict.value} ({judgement.kernel}): {reason}"


def _tell_summary(history: ReadHistory, model: Model, judgements: Sequence[KeyJudgement]) -> None:
    from nemesis.linearizability.evidence import EVIDENCE_MAX

    others = f", {_counted(history.skipped, 'event')} of others" if history.skipped else ""
    click.echo(f"history: {history.path.name} ({history.format}), {_counted(len(history.events), 'event')}{others}")
    if history.lines_missing:
        click.echo(f"{_counted(history.lines_missing, 'line')} missing, by the indexes")
    processes = _counted(history.events.processes, "process")
    if history.has_keys_from_values:
        click.echo("values were taken for [key value] pairs; --key-pairs no denies it")
    click.echo(f"judged as {model.name}: {_counted(history.events.invocations, 'operation')} of {processes}")
    counts = Counter(judgement.verdict.value for judgement in judgements)
    click.echo(f"keys: {counts['valid']} valid, {counts['invalid']} invalid, {counts['unknown']} unknown")
    if counts["invalid"] > EVIDENCE_MAX:
        click.echo(f"operations that contradict each other: looked for in {EVIDENCE_MAX} invalid keys, the shortest")


def _counted(number: int, word: str) -> str:
    plural = f"{word}es" if word.endswith("s") else f"{word}s"
    return f"{number} {word if number == 1 else plural}"


def _states(found: Counterexample, model: Model) -> list[str]:
    return [model.describe_state(state)[:VALUE_CHARS_SHOWN] for state in found.states]


def _as_json(
    history: ReadHistory, model: Model, judgements: Sequence[KeyJudgement], verdict: str, options: FileOptions
) -> dict[str, object]:
    from nemesis.formats.json_writer import json_value

    return {
        "file": str(history.path),
        "format": history.format.value,
        "model": model.name,
        "keys_from_values": history.has_keys_from_values,
        "failed_cas_is_read": options.failed_cas_is_read,
        "verdict": verdict,
        "events": len(history.events),
        "events_of_others": history.skipped,
        "lines_missing": history.lines_missing,
        "keys": [
            {
                "key": json_value(judgement.key),
                "verdict": judgement.verdict.value,
                "kernel": judgement.kernel,
                "operations": judgement.operations,
                "decided": judgement.decided,
                "configurations": judgement.configurations,
                "reason": judgement.reason,
                "counterexample": _counterexample_as_json(judgement.counterexample, model),
            }
            for judgement in judgements
        ],
    }


def _counterexample_as_json(found: Counterexample | None, model: Model) -> dict[str, object] | None:
    if found is None:
        return None
    return {
        "reason": found.reason,
        "last": _operation_as_json(found.last),
        "operations": [_operation_as_json(operation) for operation in found.operations],
        "is_minimal": found.is_minimal,
        "states": [model.describe_state(state) for state in found.states],
    }


def _operation_as_json(operation: Operation) -> dict[str, object]:
    from nemesis.formats.json_writer import json_value

    return {
        "line": operation.line,
        "process": json_value(operation.process),
        "f": operation.f,
        "argument": json_value(operation.argument),
        "result": json_value(operation.result),
        "outcome": operation.outcome.value,
    }


def _check_output(target: Path, name: str) -> None:
    """Refuse a path that cannot be written, before the work is done."""
    if target.is_dir():
        raise click.BadParameter(f"{target} is a directory; the result of one file is a file", param_hint=name)
    if not target.parent.is_dir():
        raise click.BadParameter(f"{target}: No such file or directory", param_hint=name)
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise click.BadParameter(f"{target}: Permission denied", param_hint=name)


@contextmanager
def _page(target: Path) -> Iterator[Path]:
    """Whoever writes the page to ``target`` may import what needs the extra; tells of the page that was written."""
    try:
        yield target
    except ImportError as error:
        raise click.UsageError(f"--html needs the extra report: {error}") from error
    except OSError as error:
        raise click.BadParameter(str(error), param_hint="--html") from error
    click.echo(f"page: {target}")
