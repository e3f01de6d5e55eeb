"""One stream of calls: each is begun as it is read, and answered when it is done, in whatever order that comes to be.

Owns how many calls of the stream are inside at once: beyond that nothing more is read, and the client's writes wait by
HTTP/2 flow control. A call gives its place back when its answer is written, so that a client that reads no answers is
not read any further either. Knows nothing of what a call means.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from replica.core.messages import ApplyResponse, QueryResponse, Request, Response
from replica.server.codec_conversation import CONVERSE, GroupAnswer, GroupCall


class Conversation:
    """Serves one stream by ``ask``, which hands a request to the core; ``write`` sends a message to the client."""

    def __init__(
        self,
        *,
        ask: Callable[[Request], Awaitable[Response]],
        write: Callable[[bytes], Awaitable[None]],
        calls_max: int,
    ) -> None:
        self._ask = ask
        self._write = write
        self._places = asyncio.Semaphore(calls_max)
        self._writing = asyncio.Lock()

    async def run(self, calls: AsyncIterator[bytes]) -> None:
        """Serve until the client has said its last, and every call of it is answered.

        Whatever ends it earlier comes in an exception group, and leaves the calls inside without an answer: a
        MalformedMessageError, and what ``ask`` and ``write`` raise.
        """
        async with asyncio.TaskGroup() as serving:
            while True:
                await self._places.acquire()
                encoded = await anext(calls, None)
                if encoded is None:
                    return
                serving.create_task(self._serve(CONVERSE.decode_call(encoded)))

    async def _serve(self, call: GroupCall) -> None:
        response = await self._ask(call.request)
        assert isinstance(response, ApplyResponse | QueryResponse), type(response).__name__
        answer = CONVERSE.encode_answer(GroupAnswer(id=call.id, response=response))
        async with self._writing:  # gRPC takes one message at a time.
            await self._write(answer)
        self._places.release()
