"""The container engine of this machine, by its command line: Docker, or whatever takes the same words.

Owns how it is found and called. Source: docker(1).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

from nemesis.errors import NodeFailedError, UnsupportedError

ENGINE_VARIABLE = "NEMESIS_ENGINE"
"""Names the program to use, instead of these."""
PROGRAMS = ("docker",)
CALL_S_MAX = 30.0


class EngineError(NodeFailedError):
    """The engine has refused; the message has its words."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine: the path of its program."""

    program: str

    def call(self, *words: str) -> str:
        """Run one command of it to its end; what it printed, without the end of the line. Raises EngineError."""
        try:
            done = subprocess.run(
                [self.program, *words], capture_output=True, text=True, timeout=CALL_S_MAX, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineError(f"{self.program} {words[0]}: {error}") from error
        if done.returncode:
            raise EngineError(f"{self.program} {words[0]}: {done.stderr.strip() or f'exit code {done.returncode}'}")
        return done.stdout.strip()

    def has_image(self, image: str) -> bool:
        """Whether it has an image of that name."""
        try:
            self.call("image", "inspect", "--format", "{{.Id}}", image)
        except EngineError:
            return False
        return True

    def why_no_memory_limits(self) -> str | None:
        """Why it cannot limit the memory of containers; absent if it can."""
        try:
            can = self.call("info", "--format", "{{.MemoryLimit}}")
        except EngineError as error:
            return str(error)
        return None if can == "true" else "this machine cannot limit memory: its kernel has no memory controller"


def find_engine() -> Engine:
    """The engine to use. Raises UnsupportedError, with what each of them said, if none answers."""
    named = os.environ.get(ENGINE_VARIABLE)
    refusals = []
    for name in PROGRAMS if named is None else (named,):
        program = shutil.which(name)
        if program is None:
            refusals.append(f"{name} is not installed")
            continue
        engine = Engine(program)
        try:
            engine.call("info")
        except EngineError as error:
            refusals.append(str(error))
        else:
            return engine
    raise UnsupportedError(f"no container engine answers: {'; '.join(refusals)}")
