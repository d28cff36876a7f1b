"""The page about LDAP presets: what it lists is what they fill in."""

import re
from pathlib import Path

import pytest
import yaml

from queuegate_server.identity.resolvers.ldap.defaults import PRESETS
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions

PAGE = Path("docs/reference/ldap-presets.md").read_text()
LISTED = yaml.safe_load(PAGE.partition("```yaml\n")[2].partition("```")[0])


def test_the_page_lists_every_preset() -> None:
    assert re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE) == list(PRESETS)
    assert list(LISTED) == list(PRESETS)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_listed_options_stand_for_the_preset(preset: str) -> None:
    given = {
        "urls": ["ldaps://127.0.0.1"],
        "bind": "anonymous",
        "verify_certificate": False,
        "user_base": "dc=a",
        "group_base": "dc=a",
    }
    copied = LdapOptions.model_validate(given | LISTED[preset])
    by_name = LdapOptions.model_validate(given | {"preset": preset})
    assert by_name.model_copy(update={"preset": None}) == copied
