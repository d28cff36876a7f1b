"""Rules that choose a queue, with what lint says about each and whether Hadoop refuses it."""

import json
from typing import Any, Final
from xml.sax.saxutils import escape

from tests.support.generators.yarn_files import prop

_KEY: Final = "yarn.scheduler.capacity."
MAPPINGS: Final = f"{_KEY}queue-mappings"
FORMAT: Final = f"{_KEY}mapping-rule-format"
JSON_RULES: Final = f"{_KEY}mapping-rule-json"
PLACEMENT: Final = "yarn.scheduler.queue-placement-rules"
MISSING: Final = "maps to a queue that does not exist"
PARENT: Final = "maps to a parent queue"
EMPTY: Final = "maps to a path with an empty level"
_FORM: Final = "is not a mapping of the form u:USER:QUEUE or g:GROUP:QUEUE"
_QUEUES: Final = (
    ("root.queues", "prod,users,auto,deep,one"),
    ("root.prod.queues", "etl,dup"),
    ("root.one.queues", "dup"),
    ("root.auto.auto-create-child-queue.enabled", "true"),
    ("root.deep.auto-queue-creation-v2.enabled", "true"),
    ("root.acl_submit_applications", " "),
    ("root.acl_administer_queue", " "),
    ("root.auto.leaf-queue-template.acl_submit_applications", "ann"),
    ("root.deep.auto-queue-creation-v2.template.acl_submit_applications", "ann"),
)
_WEIGHTS: Final = ("prod", "prod.etl", "prod.dup", "users", "auto", "deep", "one", "one.dup")

VALID: Final = (
    "u:ann:root.prod.etl, g:ops:etl,u:%user:%user,u:bob:root.auto.bob",
    "g:x:root.auto.%user",
    "u:kim:root.deep.a,u:kim:root.deep.a.b,u:lee:deep.%primary_group.%user",
    "u:kim:root.prod.%user",
    "u:kim:prod.etl",
    "u:a:etl\ng : ops : etl",
    " , u:a:etl,,",
    "u:%user:root.deep.new.%user",
    "u:a:etl.,u:a:%user.x,g:g:%default,u:a:root.auto.%user.%user",
)
REFUSED: Final = (
    ("u:joe:root.nowhere", MISSING),
    ("u:joe:nowhere", MISSING),
    ("g:x:root.nope.%user", MISSING),
    ("g:x:nope.%user", MISSING),
    ("g:x:root.prod.nope.%user", MISSING),
    ("g:ops:root.prod.etl2", MISSING),
    ("u:kim:root.auto.a.b", MISSING),
    ("u:kim:root.prod.x_%user", MISSING),
    ("u:joe:%user_x", MISSING),
    ("u:joe:root.deep.a.b.c", MISSING),
    ("u:joe:root.deep.a.b.%user", MISSING),
    ("u:joe:root.prod", PARENT),
    ("u:joe:prod", PARENT),
    ("u:joe:root", PARENT),
    ("u:joe:root.auto", PARENT),
    ("g:x:root.users.%user", "maps to a queue below a leaf queue"),
    ("u:joe:etl.%user", "maps to a queue below a leaf queue"),
    ("u:joe:dup.%user", 'maps to "dup", which is the name of several queues'),
    ("u:joe:dup", 'maps to "dup", which is the name of several queues'),
    ("u:joe:root..etl", EMPTY),
    ("nonsense", _FORM),
    ("x:y", _FORM),
    ("u:x", _FORM),
    ("u::root.prod.etl", _FORM),
    ("U:ann:root.prod.etl", _FORM),
    ("x:ann:root.prod.etl", _FORM),
    ("u:ann:root.prod.etl:x", _FORM),
)

RULE: Final = {"type": "user", "matches": "ann", "policy": "custom", "customPlacement": "etl"}
VALID_RULES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"fallbackResult": "skip", "create": True, "unknown": 1},
    {"policy": "user"},
    {"policy": "user", "parentQueue": "root.auto"},
    {"policy": "primaryGroupUser", "parentQueue": "root.deep"},
    {"policy": "setDefaultQueue", "value": "root.nowhere"},
    {"policy": "specified", "parentQueue": "root.nowhere"},
    {"matches": "*"},
    {"matches": 5},
    {"matches": 0},
    {"unknown": 10**4000},
    {"matches": 1.5},
    {"matches": False},
    {"create": ""},
    {"create": " TRUE "},
    {"create": "null"},
    {"create": -5},
    {"value": True, "parentQueue": 5},
    {"customPlacement": " root.prod .etl\t"},
    {"customPlacement": "root.auto. %user"},
    {"policy": "user", "parentQueue": " root.auto "},
    {"policy": "user", "parentQueue": "%user "},
)
REFUSED_RULES: Final[tuple[tuple[dict[str, Any], str], ...]] = (
    ({"type": "usr"}, 'has a type "usr" that is not one of user, group, application'),
    ({"type": None}, 'has no "type"'),
    ({"policy": "nothing"}, 'has a policy "nothing" that is not one of user, primaryGroup'),
    ({"policy": ["user"]}, "has a policy that is not one of "),
    ({"fallbackResult": "no"}, 'has a fallbackResult "no" that is not one of skip, reject'),
    ({"matches": None}, 'has no "matches" text'),
    ({"matches": ["ann"]}, 'has no "matches" text'),
    ({"matches": ""}, 'has no "matches" text'),
    ({"type": "group", "matches": "*"}, 'matches "*", which is not possible for groups'),
    ({"customPlacement": None}, 'has no "customPlacement"'),
    ({"customPlacement": "root.nowhere"}, MISSING),
    ({"customPlacement": "root.prod"}, PARENT),
    ({"policy": "setDefaultQueue"}, 'has no "value"'),
    ({"policy": "user", "parentQueue": "root.nope"}, MISSING),
    ({"policy": "primaryGroup", "parentQueue": ""}, EMPTY),
    ({"type": 5}, 'has a type "5" that is not one of user'),
    ({"fallbackResult": ""}, "has a fallbackResult that is not one of skip"),
    ({"fallbackResult": False}, 'has a fallbackResult "false" that is not one of skip'),
    ({"matches": {}}, 'has no "matches" text'),
    ({"create": "yes"}, 'has a create "yes" that is neither true nor false'),
    ({"create": "TrUe"}, 'has a create "TrUe" that is neither true nor false'),
    ({"create": 1.5}, 'has a create "1.5" that is neither true nor false'),
    ({"create": []}, "has a create that is neither true nor false"),
    ({"parentQueue": []}, "has a parentQueue that is not text"),
    ({"value": {}}, "has a value that is not text"),
    ({"customPlacement": {}}, "has a customPlacement that is not text"),
    ({"customPlacement": 5}, MISSING),
    ({"customPlacement": True}, MISSING),
    ({"customPlacement": ""}, EMPTY),
    ({"customPlacement": " etl"}, MISSING),
    ({"customPlacement": "root. prod.etl"}, MISSING),
    ({"customPlacement": "root. %user"}, MISSING),
    ({"policy": "user", "parentQueue": 5}, MISSING),
    ({"policy": "user", "parentQueue": " root.users "}, "maps to a queue below a leaf queue"),
)
NO_JSON: Final = (
    ("nonsense", f"{JSON_RULES} is not JSON: Expecting value: line 1 column 1"),
    ('{"rules": [', f"{JSON_RULES} is not JSON: "),
    ("[" * 20_000, f"{JSON_RULES} is nested too deeply"),
    ('{"rules": ' + '{"a": ' * 20_000, f"{JSON_RULES} is nested too deeply"),
    ('{"rules": ' + "1" * 5000 + "}", f'{JSON_RULES} is not an object with a list "rules"'),
    ('{"rules": [' + "1" * 5000 + "]}", f"rule 1 of {JSON_RULES} is not an object"),
    ('{"rules": [NaN]}', f"{JSON_RULES} is not JSON: NaN is not a number"),
    ("\xa0{}", f"{JSON_RULES} is not JSON: Expecting value: line 1 column 1"),
    ("[]", f'{JSON_RULES} is not an object with a list "rules"'),
    ('{"rules": null}', f'{JSON_RULES} is not an object with a list "rules"'),
    ('{"rules": {}}', f'{JSON_RULES} is not an object with a list "rules"'),
    ('{"rules": [null]}', f"rule 1 of {JSON_RULES} is not an object"),
)


def one_rule(rule: dict[str, Any]) -> str:
    """Return JSON rules: a valid one, and a valid one with these changes."""
    return json.dumps({"rules": [RULE, RULE | rule]})


def scheduler(**properties: str) -> str:
    """Return a capacity-scheduler.xml with properties on line 2, and queues in weight mode."""
    more = "".join(prop(key, escape(value)) for key, value in properties.items())
    queues = [prop(f"{_KEY}{key}", value) for key, value in _QUEUES]
    queues += [prop(f"{_KEY}root.{path}.capacity", "1w") for path in _WEIGHTS]
    return f"<configuration>\n{more}\n{''.join(queues)}</configuration>"
