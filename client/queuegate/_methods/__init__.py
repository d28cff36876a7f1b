"""The methods of the clients. Those of the blocking client are generated from those for asyncio."""
