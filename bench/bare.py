"""The yardstick: a bare `grpc.aio` server whose handlers return constant bytes.

It has the event loop, the options and the raw-bytes codecs of the product's server, and does
nothing else. gRPC keeps its default settings; with `--set-as-ours` and the product's settings of
`transports/registry.py` in its environment, it accepts calls as the product does.
"""

import argparse
import asyncio
from pathlib import Path

import grpc.aio
import pygrpc_native.aio
import uvloop

from queuegate_server.throttling.byte_budget import ByteBudget
from queuegate_server.transports.grpcio import GrpcioServer
from queuegate_server.transports.native.server import IO_THREADS
from queuegate_server.transports.stalls import Refusal, Stalls

UNARY = "unary"
BATCH = "batch"
"""The names of the files with the constant answers."""

Context = grpc.aio.ServicerContext[bytes, bytes]


async def serve(answers: Path, transport: str, *, set_as_ours: bool) -> None:
    """Serve the answers in a folder on a free port until the process ends."""
    unary, batch = ((answers / name).read_bytes() for name in (UNARY, BATCH))

    async def check(_data: bytes, _context: Context) -> bytes:
        return unary

    async def check_batch(_data: bytes, _context: Context) -> bytes:
        return batch

    options = (("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0))
    server: grpc.aio.Server | GrpcioServer
    if transport == "native":
        server = pygrpc_native.aio.Server(options=options, io_threads=IO_THREADS)
    else:
        server = grpc.aio.server(maximum_concurrent_rpcs=1000, options=options)
        if set_as_ours:
            stalls = Stalls(10, ByteBudget(1 << 26), Refusal("", (), {}))
            server = GrpcioServer(server, stalls)
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "CheckQueueAccess": grpc.unary_unary_rpc_method_handler(check),
        "BatchCheckQueueAccess": grpc.unary_unary_rpc_method_handler(check_batch),
    }
    name = "queuegate.v1.AccessService"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    server.add_registered_method_handlers(name, handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"serving constants on 127.0.0.1:{port}", flush=True)
    await asyncio.get_running_loop().create_future()


def main() -> None:
    """Read the location of the answers, and serve them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("answers", type=Path, help=f"a folder with {UNARY} and {BATCH}")
    parser.add_argument("--transport", choices=("grpcio", "native"), default="grpcio")
    parser.add_argument("--set-as-ours", action="store_true", help="as our server sets grpcio")
    options = parser.parse_args()
    uvloop.run(serve(options.answers, options.transport, set_as_ours=options.set_as_ours))


if __name__ == "__main__":
    main()
