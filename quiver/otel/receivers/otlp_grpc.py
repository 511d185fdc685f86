"""OTLP over gRPC: the three services of the collector, with requests as raw bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from quiver.extras import needed
from quiver.otel.receivers.answers import response
from quiver.otel.receivers.desk import Answer, Desk
from quiver.otel.receivers.grpc_door import refused
from quiver.otel.receivers.refusal import Reason, Refusal
from quiver.otel.signals import Signal

with needed("grpc", extra="otlp"):
    import grpc

__all__ = ["OtlpService"]

_PREFIX: Final = "/opentelemetry.proto.collector"
_METHODS: Final = {
    f"{_PREFIX}.logs.v1.LogsService/Export": Signal.LOGS,
    f"{_PREFIX}.trace.v1.TraceService/Export": Signal.TRACES,
    f"{_PREFIX}.metrics.v1.MetricsService/Export": Signal.METRICS,
}


class OtlpService(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Takes exports of all three signals to a desk.

    To gRPC a call with one request looks like one with a stream of them. Taken as the latter, its
    request is not read before there is room for it.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def service(self, handler_call_details: Any) -> Any:  # noqa: ANN401
        """Give the handler of a call, or None if it is not one of the three."""
        signal = _METHODS.get(handler_call_details.method)
        if signal is None:
            return None
        return grpc.stream_unary_rpc_method_handler(partial(self._export, signal))

    async def _export(
        self,
        signal: Signal,
        requests: AsyncIterator[bytes],
        context: Any,  # noqa: ANN401
    ) -> bytes:
        answer = await self._answer(signal, requests)
        if isinstance(answer, Refusal):
            return refused(context, answer, self._desk)
        return response(answer)

    async def _answer(self, signal: Signal, requests: AsyncIterator[bytes]) -> Answer:
        desk = self._desk
        if (refusal := desk.turned_away()) is not None:
            return desk.refuse(refusal)
        ticket = desk.ticket()
        size_max = desk.limits.message_size
        if not ticket.claim(size_max):
            return desk.refuse(desk.busy())
        is_handed_over = False
        try:
            async with asyncio.timeout(desk.limits.seconds("body_seconds")):
                request = await anext(aiter(requests), None)
            if request is None:
                # The core of gRPC has told a sender whose request was larger, and us nothing.
                text = f"there is no request, or it is larger than {size_max:,} bytes"
                return desk.refuse(Refusal(Reason.TOO_LARGE, text))
            ticket.give_back(size_max - len(request))
            is_handed_over = True
        except TimeoutError:
            return desk.refuse(Refusal(Reason.SLOW, "the request did not come in time"))
        finally:
            if not is_handed_over:
                ticket.leave()
        return await desk.work(signal, ticket, lambda: request, plain_bytes=len(request))
