"""The problems shown on every page, such as failed reloads and open circuit breakers."""

from collections.abc import Iterator

from queuegate_server.console.views import Services
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.identity.following import FollowState
from queuegate_server.identity.guarded_resolver import CircuitState
from queuegate_server.policy_age import WARN_SECONDS


def problems(services: Services) -> Iterator[str]:
    """Yield each problem as a sentence that includes the cause."""
    past = services.core.reloader.past
    if past and not past[-1].succeeded:
        last = past[-1]
        errors = [each for each in last.diagnostics if each.severity is Severity.ERROR]
        cause = f": {errors[0]}" if errors else ""
        yield (
            f"The last reload of the policy failed, and revision {last.revision} is still"
            f" served{cause}"
        )
    yield from _cluster(services)
    readiness = services.readiness
    if readiness.settings_errors:
        yield (
            "The settings could not be reloaded, and the previous ones are still used:"
            f" {readiness.settings_errors[0]}"
        )
    if readiness.pending_settings:
        keys = ", ".join(readiness.pending_settings)
        yield (
            f"Changed settings require a restart: {keys}. Check them first with `queuegate-server"
            " validate --config`"
        )
    for _, each in services.core.resolvers.resolvers():
        state = each.breaker.state
        if state != CircuitState.CLOSED:
            cause = f": {each.breaker.last_failure[1]}" if each.breaker.last_failure else ""
            yield (
                f"The resolver {each.name} is paused because its circuit breaker is {state}{cause}"
            )
        follower = each.follower
        if follower is not None and follower.state is FollowState.FAILED:
            cause = f": {follower.last_error[1]}" if follower.last_error else ""
            yield (
                f"The resolver {each.name} does not follow changes in its source, so cached"
                f" groups are used until they expire{cause}"
            )


def _cluster(services: Services) -> Iterator[str]:
    cluster = services.core.reloader.cluster
    if cluster is None:
        return
    if cluster.age.seconds > WARN_SECONDS:
        effect = "nothing is decided with it" if cluster.age.is_too_old else "it is still served"
        yield (
            "There has been no sign of life from the API server for"
            f" {cluster.age.seconds:.0f} s, so RBAC may have changed, and {effect}"
        )
    yield from (f"RBAC or queues cannot be followed: {fault}" for fault in cluster.faults)
    if cluster.left_out:
        yield (
            f"{cluster.left_out} namespaces or objects grant nothing, because they contain too many"
            " grants; the log names them"
        )


def failure_of(services: Services, resolver: str) -> str:
    """Return the cause of the resolver's last failure, or "" if it is unknown."""
    failures = [
        each.breaker.last_failure[1]
        for _, each in services.core.resolvers.resolvers()
        if each.name == resolver and each.breaker.last_failure
    ]
    return failures[-1] if failures else ""
