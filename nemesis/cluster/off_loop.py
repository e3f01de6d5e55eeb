"""What blocks is done beside the event loop: a command of the kernel's or of an engine's, while clients go on.

Else what a fault itself costs would be measured as slowness of the system.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def off_loop(do: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Call it in a thread. A thread cannot be stopped: who is cancelled meanwhile is so when it has come to its end."""
    doing = asyncio.ensure_future(asyncio.to_thread(do, *args, **kwargs))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        doing.exception()  # Nobody is there to be told of it.
        raise
