"""The asyncio clients: `queuegate.aio.Client` and `queuegate.aio.Gate`."""

from queuegate._async_client import Client
from queuegate.gate.asynchronous import Gate

__all__ = ["Client", "Gate"]
