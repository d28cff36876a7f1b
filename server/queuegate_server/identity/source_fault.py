"""The base class of all errors of a group source: what went wrong, and what to do about it."""


class SourceFault(Exception):
    """A request to a source of groups failed. Neither text contains a secret."""

    def __init__(self, detail: str, advice: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        """What went wrong."""
        self.advice = advice
        """What to do, or "" if nothing is known that helps."""

    @property
    def text(self) -> str:
        """The detail, followed by the advice."""
        return f"{self.detail} ({self.advice})" if self.advice else self.detail
