"""Rules that choose a queue: what lint reports is what Hadoop's scheduler does not start with."""

import pytest

from tests.support.oracles.hadoop.process import BUILD_SECONDS, Hadoop
from tests.support.yarn_mappings import (
    FORMAT,
    JSON_RULES,
    MAPPINGS,
    NO_JSON,
    REFUSED,
    REFUSED_RULES,
    VALID,
    VALID_RULES,
    one_rule,
    scheduler,
)

pytestmark = pytest.mark.timeout(BUILD_SECONDS + 600)


def is_refused(hadoop: Hadoop, **properties: str) -> bool:
    return "error" in hadoop.ask("created", scheduler=scheduler(**properties), questions=[])


def test_mappings(hadoop: Hadoop) -> None:
    for mappings in VALID:
        assert not is_refused(hadoop, **{MAPPINGS: mappings}), mappings
    for mapping, _ in REFUSED:
        assert is_refused(hadoop, **{MAPPINGS: mapping}), mapping


def test_json_rules(hadoop: Hadoop) -> None:
    texts = [(one_rule(rule), False) for rule in VALID_RULES]
    texts += [(one_rule(rule), True) for rule, _ in REFUSED_RULES]
    texts += [(text, True) for text, _ in NO_JSON]
    for text, expected in texts:
        answer = is_refused(hadoop, **{FORMAT: "json", JSON_RULES: text})
        assert answer is expected, text[:200]
        assert not is_refused(hadoop, **{JSON_RULES: text})
    assert is_refused(hadoop, **{FORMAT: "JSON"})
