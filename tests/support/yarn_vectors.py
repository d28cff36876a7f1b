"""The YARN vectors, each with the semantics in which it holds."""

import json
from pathlib import Path
from typing import Any, Final

from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.detection import detect_policy_format
from queuegate_server.formats.registry import FormatOptions, LoadResult, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn import configuration

VECTORS: Final[list[dict[str, Any]]] = json.loads(
    Path("tests/vectors/yarn_vectors.json").read_text()
)
_SOURCES: Final = {"seed": Semantics.DOCUMENTED, "hadoop-code": Semantics.HADOOP}


def readings(vector: dict[str, Any]) -> list[tuple[Semantics, dict[str, Any]]]:
    """Return the expected result of a vector, by semantics."""
    if vector.get("divergent"):
        return [(_SOURCES[source], answer) for source, answer in vector["expect"].items()]
    sources = [vector["source"], *vector.get("also", [])]
    return [(_SOURCES[source], vector["expect"]) for source in sources if source in _SOURCES]


def loaded(asked: dict[str, Any], semantics: Semantics) -> LoadResult:
    text = asked.get("xml") or configuration(asked["properties"])
    site = configuration(asked["yarn_site"]).encode()
    options = YarnOptions(
        semantics=semantics,
        site=(site, "yarn-site.xml"),
        daemon_user=asked.get("rm_user", ""),
    )
    return load_policy(
        detect_policy_format(text.encode()), text.encode(), "file", FormatOptions(yarn=options)
    )
