"""Decodes the sections of a partition or queue that are neither: limits, rules and so on."""

from typing import Final

from queuegate_server.formats.yaml_nodes import Mapping, Node, Scalar
from queuegate_server.formats.yunikorn.fields import Fields
from queuegate_server.formats.yunikorn.model import Filter, Limit, NodeSortPolicy, Resources, Rule

_LIMIT_KEYS: Final = ("limit", "users", "groups", "maxresources", "maxapplications")
_RESOURCE_KEYS: Final = ("guaranteed", "max")
_TEMPLATE_KEYS: Final = ("maxapplications", "properties", "resources")
_RULE_KEYS: Final = ("name", "create", "filter", "parent", "value")
_FILTER_KEYS: Final = ("type", "users", "groups")
_NODE_SORT_KEYS: Final = ("type", "resourceweights")
_PREEMPTION_KEYS: Final = ("enabled", "quotapreemptionenabled")


def limits(fields: Fields, node: Node) -> list[Limit]:
    """Decode the limits of a queue or partition."""
    return [_limit(fields, mapping) for mapping in fields.mappings("limits", node)]


def _limit(fields: Fields, mapping: Mapping) -> Limit:
    limit = Limit(mapping)
    for key, value in fields.entries(mapping, _LIMIT_KEYS, "a limit"):
        match key:
            case "limit":
                description = fields.text(key, value)
                limit.description = description.text if description else ""
            case "users":
                limit.users = fields.texts(key, value)
            case "groups":
                limit.groups = fields.texts(key, value)
            case "maxresources":
                limit.max_resources = fields.text_map(key, value)
            case _:
                limit.max_applications = fields.count(key, value)
    return limit


def resources(fields: Fields, node: Node) -> Resources | None:
    """Decode the resources of a queue or a child template."""
    mapping = fields.mapping("resources", node)
    if mapping is None:
        return None
    found = Resources(mapping)
    for key, value in fields.entries(mapping, _RESOURCE_KEYS, "resources"):
        if key == "guaranteed":
            found.guaranteed = fields.text_map(key, value)
        else:
            found.maximum = fields.text_map(key, value)
    return found


def template_resources(fields: Fields, node: Node) -> Resources | None:
    """Decode a child template; only its resources have rules."""
    mapping = fields.mapping("childtemplate", node)
    found = None
    for key, value in (
        fields.entries(mapping, _TEMPLATE_KEYS, "a child template") if mapping else ()
    ):
        match key:
            case "maxapplications":
                fields.count(key, value)
            case "properties":
                fields.text_map(key, value)
            case _:
                found = resources(fields, value)
    return found


def rules(fields: Fields, node: Node) -> list[Rule]:
    """Decode the placement rules of a partition, with the chains of their parents."""
    found = []
    for mapping in fields.mappings("placementrules", node):
        rule, above = _rule(fields, mapping)
        found.append(rule)
        while above is not None:
            rule.parent, above = _rule(fields, above)
            rule = rule.parent
    return found


def _rule(fields: Fields, mapping: Mapping) -> tuple[Rule, Mapping | None]:
    """Decode one rule; return it with what is still to be decoded as its parent."""
    rule = Rule(mapping)
    parent = None
    for key, value in fields.entries(mapping, _RULE_KEYS, "a placement rule"):
        match key:
            case "name":
                name = fields.text(key, value)
                rule.name_position = value
                rule.name = name.text if name else ""
                rule.name_known = isinstance(value, Scalar)
            case "create":
                rule.create = fields.truth(key, value)
            case "filter":
                rule.filter = _filter(fields, value)
            case "value":
                rule.value = fields.text(key, value)
            case _:
                parent = fields.mapping(key, value)
    return rule, parent


def _filter(fields: Fields, node: Node) -> Filter | None:
    mapping = fields.mapping("filter", node)
    if mapping is None:
        return None
    found = Filter(mapping)
    for key, value in fields.entries(mapping, _FILTER_KEYS, "a filter"):
        match key:
            case "type":
                found.kind = fields.text(key, value)
            case "users":
                found.users = fields.texts(key, value)
            case _:
                found.groups = fields.texts(key, value)
    return found


def node_sort_policy(fields: Fields, node: Node) -> NodeSortPolicy | None:
    """Decode how the nodes of a partition are sorted."""
    mapping = fields.mapping("nodesortpolicy", node)
    if mapping is None:
        return None
    found = NodeSortPolicy(mapping)
    for key, value in fields.entries(mapping, _NODE_SORT_KEYS, "a node sort policy"):
        if key == "type":
            found.kind = fields.text(key, value)
        else:
            found.weights = fields.float_map(key, value)
    return found


def check_preemption(fields: Fields, node: Node) -> None:
    """Check the types of a partition's preemption settings; they have no rules."""
    mapping = fields.mapping("preemption", node)
    for key, value in fields.entries(mapping, _PREEMPTION_KEYS, "preemption"):
        fields.truth(key, value)
