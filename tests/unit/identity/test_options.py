"""Settings of the cache and of resolvers: defaults, units, bounds."""

import pytest
from pydantic import BaseModel, ValidationError

from docs.generate.settings import documented_fields
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolvers.entra.entra_options import EntraOptions
from queuegate_server.identity.resolvers.keycloak.keycloak_options import KeycloakOptions
from queuegate_server.identity.resolvers.okta.okta_options import OktaOptions
from queuegate_server.identity.rest.provider_options import RestOptions


def test_defaults_of_the_cache() -> None:
    assert CacheOptions().model_dump() == {
        "positive_ttl": 300.0,
        "negative_ttl": 30.0,
        "failure_ttl": 5.0,
        "max_entries": 100_000,
        "max_stale": 3600.0,
    }


def test_durations_are_text_with_units() -> None:
    options = CacheOptions.model_validate(
        {"positive_ttl": "5m", "negative_ttl": "30s", "failure_ttl": "250ms", "max_stale": "0"}
    )
    assert (options.positive_ttl, options.negative_ttl) == (300.0, 30.0)
    assert (options.failure_ttl, options.max_stale) == (0.25, 0.0)


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        (CacheOptions, "positive_ttl", "0s"),
        (CacheOptions, "positive_ttl", "8d"),
        (CacheOptions, "positive_ttl", -1),
        (CacheOptions, "positive_ttl", float("inf")),
        (CacheOptions, "positive_ttl", "soon"),
        (CacheOptions, "negative_ttl", "0"),
        (CacheOptions, "negative_ttl", "25h"),
        (CacheOptions, "failure_ttl", 0),
        (CacheOptions, "max_stale", "31d"),
        (CacheOptions, "max_entries", 0),
        (CacheOptions, "max_entries", 10_000_001),
        (CacheOptions, "max_entries", 1.5),
        (CacheOptions, "ttl", "5m"),
        (ResolverOptions, "lookup_timeout", "0s"),
        (ResolverOptions, "lookup_timeout", "61s"),
        (ResolverOptions, "max_concurrent", 0),
        (ResolverOptions, "thread", 1),
    ],
)
def test_bounds(model: type[BaseModel], field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate({field: value})
    assert [error["loc"] for error in caught.value.errors()] == [(field,)]


def test_options_cannot_be_changed() -> None:
    options = CacheOptions()
    with pytest.raises(ValidationError):
        options.positive_ttl = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("model", [CacheOptions, ResolverOptions])
def test_every_setting_is_described(model: type[BaseModel]) -> None:
    assert all(field.description for field in documented_fields(model).values())


@pytest.mark.parametrize("options", [KeycloakOptions, EntraOptions, OktaOptions])
def test_the_modes_of_files_with_credentials_are_checked(options: type[RestOptions]) -> None:
    """Certificates of authorities are public, and Kubernetes writes the federated token."""
    files = {name for name in options.model_fields if name.endswith("_file")}
    assert files - {"ca_file", "federated_token_file"} == set(options.private_files)
