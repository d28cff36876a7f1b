"""Text from elsewhere, made fit for a line of a log or a terminal."""


def printable(text: str) -> str:
    """Write control characters, and others that are not seen, as Python does."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
