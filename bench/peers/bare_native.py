"""The yardstick of the native transport: a bare `pygrpc_native.aio` handler, constant bytes."""

import argparse
import asyncio
from pathlib import Path

import grpc.aio
import pygrpc_native.aio
import uvloop

Context = grpc.aio.ServicerContext[bytes, bytes]


async def serve(answer: bytes) -> None:
    """Serve an answer on a free port until the process ends."""

    async def check(_data: bytes, _context: Context) -> bytes:
        return answer

    server = pygrpc_native.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "CheckQueueAccess": grpc.unary_unary_rpc_method_handler(check),
    }
    # Only registered methods are served by the native part.
    server.add_registered_method_handlers("queuegate.v1.AccessService", handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"serving a constant on 127.0.0.1:{port}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Read the answer, and serve it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("answer", type=Path)
    uvloop.run(serve(parser.parse_args().answer.read_bytes()))


if __name__ == "__main__":
    main()
