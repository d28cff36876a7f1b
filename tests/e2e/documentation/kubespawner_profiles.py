"""Prints what KubeSpawner offers two users with the configuration of a page, as JSON.

Runs in an environment of its own, in which JupyterHub is installed. Its arguments are the
configuration and the users.
"""

import asyncio
import json
import sys

from kubespawner import KubeSpawner
from traitlets.config.loader import PyFileConfigLoader


class User:
    """What a spawner needs to know of JupyterHub's user."""

    def __init__(self, name: str) -> None:
        self.name = self.escaped_name = self.id = name
        self.url = f"/user/{name}/"


async def offered(config: object, name: str) -> dict[str, object]:
    """Return the profiles of a user, and what becomes of a profile that is not among them."""
    spawner = KubeSpawner(config=config, user=User(name), _mock=True)
    try:
        form = await spawner.get_options_form()
    except Exception as error:
        return {"error": type(error).__name__}
    profiles = [profile["slug"] for profile in await spawner.profile_list(spawner)]
    spawner.user_options = {"profile": profiles[0]}
    await spawner.load_user_options()
    labels = spawner.extra_labels
    spawner.user_options = {"profile": "root.engineering.payroll"}
    try:
        await spawner.load_user_options()
        refused = False
    except ValueError:
        refused = True
    shown = all(profile in form for profile in profiles)
    return {"profiles": profiles, "shown": shown, "labels": labels, "refused": refused}


async def main(file: str, *names: str) -> None:
    """Print the profiles of each user."""
    config = PyFileConfigLoader(file).load_config()
    print(json.dumps([await offered(config, name) for name in names]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
