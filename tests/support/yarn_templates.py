"""A capacity scheduler that creates queues below `root.managed`, and another version of it."""

from typing import Final

_PROPERTIES: Final = {
    "root.queues": "default,managed",
    "root.acl_submit_applications": "sue",
    "root.acl_administer_queue": " ",
    "root.managed.auto-create-child-queue.enabled": "true",
    "root.managed.leaf-queue-template.acl_submit_applications": "{submit} analysts",
    "root.managed.leaf-queue-template.acl_administer_queue": "ops",
}


def creating_scheduler(submit: str = "alice") -> str:
    """Return the file. `submit` and the group `analysts` may submit to created queues."""
    properties = "\n".join(
        f"<property><name>yarn.scheduler.capacity.{name}</name><value>{value}</value></property>"
        for name, value in _PROPERTIES.items()
    )
    return f"<configuration>\n{properties.format(submit=submit)}\n</configuration>\n"
