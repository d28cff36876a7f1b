"""Detects the formats of policies and their companion files from their content."""

import re
from typing import Final

from queuegate_server.formats.diagnostics import ParseError
from queuegate_server.formats.envelope import FORMATS_BY_KEY, OpenedText, open_envelope
from queuegate_server.formats.format_names import (
    CAPACITY_SCHEDULER,
    FAIR_SCHEDULER,
    KUBERNETES,
    SPARK_DEFAULTS,
    YARN_SITE,
    YUNIKORN,
)
from queuegate_server.formats.kubernetes_rbac.manifests import are_manifests, has_rbac

# A byte order mark, a declaration and comments may precede the first tag. The groups are atomic so
# that a text consisting only of comments takes linear time.
_FIRST_TAG: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?+(?>\s++|<\?.*?\?>|<!--.*?-->|<!(?!--)[^>]*+>)*+<([\w:.-]++)", re.DOTALL
)
_FORMAT_BY_FIRST_TAG: Final = {
    b"allocations": FAIR_SCHEDULER,
    b"configuration": CAPACITY_SCHEDULER,
}
_OTHER_XML_FORMAT: Final = FAIR_SCHEDULER
_MARKUP: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*+<[!?]")
_SPARK_PROPERTY: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t\r\f]*(?:[#!][^\n]*)?\n)*[ \t\f]*spark\."
)
_SITE_KEY: Final = re.compile(rb"[>\"'\s]yarn\.(?!scheduler\.capacity\.)[\w.-]+[<\"'\s]")
_ROOT_QUEUES: Final = b".root.queues"
_MAX_SNIFFED_BYTES: Final = 65_536


def detect_policy_format(data: bytes) -> str:
    """Detect a policy's format, even inside an envelope.

    May decompress and parse the whole text, which can take seconds and a lot of memory. For
    untrusted text, use a child process or `detect_bare_format`.
    """
    if are_manifests(data):
        return KUBERNETES
    try:
        return opened_policy_format(open_envelope(data, ""))
    except ParseError:
        return detect_bare_format(data)


def opened_policy_format(text: OpenedText) -> str:
    """Detect a policy's format from its key in the envelope or, without a key, its content."""
    return FORMATS_BY_KEY.get(text.key, YUNIKORN) if text.key else detect_bare_format(text.data)


def detect_bare_format(data: bytes) -> str:
    """Detect the format of a bare policy from the beginning of its text.

    XML is recognized by its root element, or, if no element is found, by a declaration at the
    beginning, because a document type can hide the element. Text that contains a Kubernetes RBAC
    object is in Kubernetes' format. All other text is in YuniKorn's format.
    """
    start = data[:_MAX_SNIFFED_BYTES]
    if tag := _FIRST_TAG.match(start):
        return _FORMAT_BY_FIRST_TAG.get(tag[1], _OTHER_XML_FORMAT)
    if _MARKUP.match(start):
        return _OTHER_XML_FORMAT
    return KUBERNETES if has_rbac(data) else YUNIKORN


def format_mismatch(text: OpenedText, expected: str) -> str:
    """Describe a policy that is not in the expected format; return "" if it may be.

    The description completes the sentence `this file …`.
    """
    detected = opened_policy_format(text)
    if detected == expected:
        return ""
    if detected == KUBERNETES:
        return "has Kubernetes RBAC objects"
    if detected == YUNIKORN:
        return "has no Kubernetes RBAC object" if expected == KUBERNETES else "is not XML"
    if not text.key:
        tag = _FIRST_TAG.match(text.data)
        if tag is None:
            return "is XML" if expected == YUNIKORN else ""
        detected = _FORMAT_BY_FIRST_TAG.get(tag[1], "")
        if detected == expected:  # The root element is beyond the part used for detection.
            return ""
    return f"looks like {detected}" if detected else "is XML that is not a scheduler's"


def detect_file_format(data: bytes) -> str:
    """Return a file's format from `FILE_FORMATS`. The caveats in `detect_policy_format` apply."""
    if is_spark(data):
        return SPARK_DEFAULTS
    if are_manifests(data):
        return KUBERNETES
    try:
        return opened_file_format(open_envelope(data, ""))
    except ParseError:
        return detect_bare_format(data)


def is_spark(data: bytes) -> bool:
    """Return whether a file begins like a spark-defaults.conf."""
    return _SPARK_PROPERTY.match(data[:_MAX_SNIFFED_BYTES]) is not None


def opened_file_format(text: OpenedText) -> str:
    """Detect the format of a file, other than Spark's, that was taken out of its envelope."""
    format_name = opened_policy_format(text)
    if format_name != CAPACITY_SCHEDULER or _ROOT_QUEUES in text.data:
        return format_name
    return YARN_SITE if _SITE_KEY.search(text.data) else format_name
