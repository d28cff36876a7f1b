"""Who calls, for as long as a call is being answered."""

from contextvars import ContextVar

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""The printable name of the caller; empty if callers are not identified."""
