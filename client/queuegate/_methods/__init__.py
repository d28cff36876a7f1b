"""The clients' methods. The blocking methods are generated from the asyncio methods."""
