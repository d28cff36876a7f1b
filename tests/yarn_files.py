"""Texts of the files of YARN's schedulers."""

from xml.sax.saxutils import escape

FAIR, CAPACITY = "fair-scheduler", "capacity-scheduler"
CLOSED = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"


def prop(name: str, value: str, more: str = "") -> str:
    return f"<property><name>{name}</name><value>{value}</value>{more}</property>"


def site(*, enabled: str = "true", admins: str = " ") -> tuple[bytes, str]:
    text = prop("yarn.acl.enable", enabled) + prop("yarn.admin.acl", escape(admins))
    return f"<configuration>{text}</configuration>".encode(), "yarn-site.xml"
