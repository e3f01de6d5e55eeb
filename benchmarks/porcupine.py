"""Porcupine's verdicts and figures on the same histories: the checker in Go that others measure themselves by.

Owns a small program in Go, which is written to a temporary directory and built against a checkout of Porcupine; nothing
of Porcupine is kept. The program has one thread, has a time-out for each history, and ends at ``MEMORY_MIB_MAX``. It is
told only operations that say something, in the order of their invocations: no reads of unknown outcome, and a failed
compare-and-set only where it proves something. Reading is not measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemesis.linearizability.forms import RegisterForm
from nemesis.linearizability.model import Model, relevant
from nemesis.linearizability.operations import Operation, Outcome

TIMEOUT_S = 30
MEMORY_MIB_MAX = 8192
NEVER = 1 << 60

_MODULE = """module measure

go 1.21

require github.com/anishathalye/porcupine v0.0.0

replace github.com/anishathalye/porcupine => {checkout}
"""

_PROGRAM = """package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

const timeout = TIMEOUT * time.Second

type asked struct{ kind, value, new int }

func step(state, input, output interface{}) (bool, interface{}) {
	present, op, known := state.(int), input.(asked), output.(bool)
	switch op.kind {
	case 0:
		return !known || present == op.value, state
	case 1:
		return true, op.value
	case 2:
		if present == op.value {
			return true, op.new
		}
		return !known, state
	default:
		return present != op.value, state
	}
}

func cpu() time.Duration {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// The peak of this program: that of getrusage would be at least that of the process which started it.
func peakMiB() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\\n") {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}

func report(verdicts map[string]bool, took time.Duration) {
	fmt.Printf(`{"cpu_ms": %.3f, "peak_mib": %d, "verdicts": [`, float64(took.Microseconds())/1000, peakMiB())
	comma := ""
	for verdict := range verdicts {
		fmt.Printf(`%s"%s"`, comma, verdict)
		comma = ", "
	}
	fmt.Println("]}")
}

func watch(begun time.Duration) {
	for range time.Tick(50 * time.Millisecond) {
		if peakMiB() > MEMORY_MAX {
			report(map[string]bool{"out of memory": true}, cpu()-begun)
			os.Exit(0)
		}
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	var objects [][]porcupine.Operation
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	last := -1
	for {
		var object, known int
		var op asked
		var begun, ended int64
		if n, _ := fmt.Fscan(in, &object, &op.kind, &op.value, &op.new, &known, &begun, &ended); n < 7 {
			break
		}
		if object != last {
			objects = append(objects, nil)
			last = object
		}
		end := len(objects) - 1
		whole := porcupine.Operation{Input: op, Call: begun, Output: known == 1, Return: ended}
		objects[end] = append(objects[end], whole)
	}
	model := porcupine.Model{Init: func() interface{} { return 0 }, Step: step}
	HASH
	names := map[porcupine.CheckResult]string{
		porcupine.Ok: "valid", porcupine.Illegal: "invalid", porcupine.Unknown: "unknown",
	}
	verdicts := map[string]bool{}
	best := time.Duration(1 << 62)
	go watch(cpu())
	for turn := 0; turn < TIMES && best > 0; turn++ {
		runtime.GC()
		begun, deadline := cpu(), time.Now().Add(timeout)
		for _, history := range objects {
			left := time.Until(deadline)
			if left <= 0 {
				verdicts["unknown"] = true
				break
			}
			verdicts[names[porcupine.CheckOperationsTimeout(model, history, left)]] = true
		}
		if took := cpu() - begun; took < best {
			best = took
		}
		if verdicts["unknown"] || best > 2*time.Second {
			break
		}
	}
	report(verdicts, best)
}
"""
_HASH = "model.Hash = func(state interface{}) uint64 { return uint64(state.(int)) * 0x9e3779b97f4a7c15 }"


@dataclass(frozen=True, slots=True, kw_only=True)
class PorcupineFigures:
    """What Porcupine said of histories, how much CPU time it took (the best), and the peak of its memory."""

    verdicts: tuple[str, ...]
    cpu_ms: float
    peak_mib: int


def built(checkout: Path, folder: Path, times: int) -> Path:
    """The program, built in ``folder`` against the ``checkout``. Raises RuntimeError if that does not work."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    hashes = "Hash func(" in (checkout / "model.go").read_text(encoding="utf-8")
    program = _PROGRAM
    for name, value in {
        "TIMEOUT": TIMEOUT_S, "MEMORY_MAX": MEMORY_MIB_MAX, "TIMES": times, "HASH": _HASH if hashes else ""
    }.items():  # fmt: skip
        program = program.replace(name, str(value))
    (folder / "main.go").write_text(program, encoding="utf-8")
    (folder / "go.mod").write_text(_MODULE.format(checkout=checkout.resolve()), encoding="utf-8")
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOCACHE": str(folder / "cache")}
    done = subprocess.run(
        [go, "build", "-o", "measure", "."], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"the program for Porcupine does not build: {done.stderr.strip()}")
    return folder / "measure"


def measured(program: Path, histories: Sequence[Sequence[Operation]], model: Model) -> PorcupineFigures:
    """What Porcupine says of ``histories``, judged one after the other."""
    text = "\n".join(" ".join(map(str, row)) for row in _rows(histories, model))
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    found: Mapping[str, object] = json.loads(done.stdout)
    return PorcupineFigures(
        verdicts=tuple(sorted(map(str, _listed(found["verdicts"])))),
        cpu_ms=float(str(found["cpu_ms"])),
        peak_mib=int(str(found["peak_mib"])),
    )


def _listed(value: object) -> list[object]:
    assert isinstance(value, list), f"a list was expected, not {value!r}"
    return value


def _rows(histories: Sequence[Sequence[Operation]], model: Model) -> Iterator[tuple[int, ...]]:
    """One operation each: its object, kind, value, new value, whether it is known, and its times."""
    number = 0
    for history in histories:
        for part in model.partition(history).values():
            number += 1
            ids: dict[Hashable, int] = {model.register_initial(): 0}
            for operation in relevant(part, model):
                form = model.form(operation)
                assert isinstance(form, RegisterForm), f"{operation} is none of a register"
                value, new = (ids.setdefault(one, len(ids)) for one in (form.value, form.new))
                known = operation.outcome is Outcome.OK
                ended = NEVER if operation.returned is None else operation.returned
                yield number, int(form.kind), value, new, int(known), operation.invoked, ended
