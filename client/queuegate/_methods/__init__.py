"""The clients' methods. The blocking ones are generated from the asyncio ones."""
