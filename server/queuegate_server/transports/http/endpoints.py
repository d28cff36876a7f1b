"""The endpoints of the standard: who may ask, and what becomes of a request."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from queuegate_server.settings.callers import Role
from queuegate_server.transports.http import evaluations, searches
from queuegate_server.transports.http.strict_json import Json
from queuegate_server.transports.http.vocabulary import Vocabulary

Asked: TypeAlias = evaluations.SingleEvaluation | evaluations.Batch | searches.Search
"""What a request asks: its `calls` of methods, and how to `answer`, given the responses."""


class HttpEndpoint(NamedTuple):
    """An endpoint."""

    name: str
    """The name in the metadata, where `_endpoint` follows it."""
    role: Role
    """The role of the methods that answer."""
    read: Callable[[Vocabulary, Json], Asked]
    """Returns what a request asks. Raises Malformed."""


EVALUATION: Final = "/access/v1/evaluation"
ENDPOINTS: Final[Mapping[str, HttpEndpoint]] = {
    EVALUATION: HttpEndpoint("access_evaluation", Role.CHECK, evaluations.read_one),
    "/access/v1/evaluations": HttpEndpoint("access_evaluations", Role.CHECK, evaluations.read_many),
    "/access/v1/search/subject": HttpEndpoint("search_subject", Role.READ, searches.subjects),
    "/access/v1/search/resource": HttpEndpoint("search_resource", Role.READ, searches.resources),
    "/access/v1/search/action": HttpEndpoint("search_action", Role.READ, searches.actions),
}
"""The endpoints by path."""
