"""The yardstick for the webhook: a bare aiohttp handler over TLS, which decides nothing.

It decodes each review for its `uid`, and refuses only the object that shows a benchmark that the
API server asks it.
"""

import argparse
import asyncio
import json
import ssl
from pathlib import Path

import uvloop
from aiohttp import web


async def serve(folder: Path, refused: str) -> None:
    """Serve until the process ends.

    Args:
        folder: Where `tls.crt` and `tls.key` are.
        refused: The name of the object that is refused.
    """

    async def review(request: web.Request) -> web.Response:
        asked = json.loads(await request.read())["request"]
        response = {"uid": asked["uid"], "allowed": asked["name"] != refused}
        answer = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {**response, "status": {"code": 403}},
        }
        return web.json_response(answer)

    app = web.Application()
    app.add_routes([web.post("/queues", review)])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(f"serving constants on https://{host}:{port}", flush=True)
    await asyncio.get_running_loop().create_future()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("refused")
    arguments = parser.parse_args()
    uvloop.run(serve(arguments.folder, arguments.refused))


if __name__ == "__main__":
    main()
