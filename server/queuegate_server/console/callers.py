"""Detects requests that a browser sends on behalf of another site."""

from aiohttp import web


def is_embedded_elsewhere(request: web.Request) -> bool:
    """Return whether another site's page loads this page by any means other than a link.

    If the caller is identified by address or certificate, such loads would use up the caller's rate
    limit.
    """
    site = request.headers.get("Sec-Fetch-Site", "none")
    is_link = (
        request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
    )
    return site not in {"same-origin", "none"} and not is_link


def is_own_origin(request: web.Request) -> bool:
    """Return whether a state-changing request was sent by a console page."""
    sites = request.headers.getall("Sec-Fetch-Site", [])
    if sites:
        # Ignore `Origin`, which is `null` because console pages send no referrer.
        return sites == ["same-origin"]
    origins = request.headers.getall("Origin", [])
    if not origins:
        return True  # not a browser; the form's CSRF token is also checked
    own = f"{request.scheme}://{request.headers.get('Host', '')}".lower()
    return [each.lower() for each in origins] == [own]
