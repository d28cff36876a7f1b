"""A program that starts child processes during gRPC calls of the same process.

Argument: the number of children. Prints the number of children that succeeded, and the number of
    calls answered meanwhile.
"""

import asyncio
import sys
from typing import Final

import grpc
import grpc.aio

from queuegate_server.runtime.child_process import ChildResult, ProcessLimits, run
from queuegate_server.runtime.event_loop import run_in_loop

_AT_ONCE: Final = 4
_CALLERS: Final = 8
_LIMITS: Final = ProcessLimits(seconds=60, output_bytes=1000)
_METHOD: Final = "/test.Echo/Echo"


async def _echo(request: bytes, _: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
    return request


async def _main(count: int) -> None:
    server = grpc.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Echo": grpc.unary_unary_rpc_method_handler(_echo)
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Echo", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    answered = ended = 0
    remaining = iter(range(count))

    async def call() -> None:
        nonlocal answered
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_METHOD)
            while True:
                await ask(b"text")
                answered += 1

    async def start_children() -> None:
        nonlocal ended
        for number in remaining:
            command = (sys.executable, "-I", "-S", "-c", f"print({number})")
            result = await run(command, _LIMITS)
            ended += result == ChildResult(0, bytearray(f"{number}\n".encode()))

    callers = [asyncio.create_task(call()) for _ in range(_CALLERS)]
    await asyncio.gather(*(start_children() for _ in range(_AT_ONCE)))
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    await server.stop(None)
    print(ended, answered)


if __name__ == "__main__":
    run_in_loop(_main(int(sys.argv[1])))
