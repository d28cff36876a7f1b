"""Who made the call that is being answered."""

from contextvars import ContextVar

CALLER: ContextVar[str] = ContextVar("caller", default="")
