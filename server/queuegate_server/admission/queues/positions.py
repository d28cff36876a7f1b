"""Represents positions in an object, and renders positions and values as text. Pure."""

from typing import Final, NamedTuple

from queuegate.policy.names import CONTROL_CHARACTER
from queuegate_server.admission.queues.model import NOT_TEXT

_MAX_WHERE: Final = 500
_EXPRESSIONS: Final = ("{{", "${", "$(")
"""How expressions begin in Argo's, Katib's and Tekton's objects. No name contains them."""
LABELS: Final = "labels"
ANNOTATIONS: Final = "annotations"
LABELS_FROM: Final = "labelsFrom"
"""Argo's `workflowMetadata.labelsFrom`, labels whose values are expressions."""
SPARK_CONF: Final = "sparkConf"
FLINK_CONFIGURATION: Final = "flinkConfiguration"
MAPS: Final = frozenset({LABELS, ANNOTATIONS, LABELS_FROM, SPARK_CONF, FLINK_CONFIGURATION})
"""Members whose entries may name queues."""


class Trail(NamedTuple):
    """The position of a node. It is converted to text only if a name is found, because the text of
    all nodes would exhaust the memory if long keys have many members below them.
    """

    above: "Trail | None"
    step: str | int


OWN_METADATA: Final = Trail(None, "metadata")
"""The metadata of the object itself."""


def where(trail: Trail | None) -> str:
    """Return a position as text, such as `spec.template.metadata.labels["queue"]`."""
    steps: list[str | int] = []
    while trail is not None:
        steps.append(trail.step)
        trail = trail.above
    text = ""
    above = ""
    for step in reversed(steps):
        if isinstance(step, int):
            text += f"[{step}]"
        elif above in MAPS or "/" in step:
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
        above = str(step)
        if len(text) > _MAX_WHERE:
            text = f"{text[:_MAX_WHERE]}…"
            break
    return CONTROL_CHARACTER.sub("?", text)


def text_of(value: object) -> str:
    """Return a value as text; empty for null.

    Numbers and booleans are not ignored, because a controller may convert them to strings.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return NOT_TEXT if isinstance(value, dict | list) else str(value).lower()


def has_expression(text: str) -> bool:
    """Return whether a string contains an expression that an operator evaluates."""
    return any(start in text for start in _EXPRESSIONS)


def holding_member(trail: Trail | None) -> str:
    """Return the name of the member that holds a node, directly or in a list."""
    if trail is not None and isinstance(trail.step, int):
        trail = trail.above
    return str(trail.step) if trail is not None else ""
