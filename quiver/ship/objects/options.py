"""How a remote store is reached, by the names that its users know.

Options come by name, each as text, number or truth value; below them what an environment says, as
``AWS_REGION``. Whatever neither says obstore looks for itself: in the environment of the process,
then with the machine that it runs on.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeAlias

from quiver.errors import ConfigError
from quiver.units import parse_duration

__all__ = ["CLIENT", "KINDS", "RETRY", "Options", "RemoteSettings", "read_options"]

Options: TypeAlias = Mapping[str, "str | int | float | bool"]

_MICROSECOND: Final = 1_000
_BACKOFF: Final = {
    "init_backoff": timedelta(milliseconds=100),
    "max_backoff": timedelta(seconds=5),
    "base": 2,
}

CLIENT: Final = {
    "allow_http": "false",
    "allow_invalid_certificates": "",
    "connect_timeout": "5s",
    "proxy_url": "",
    "root_certificate": "",
    "timeout": "30s",
    "user_agent": "",
}
"""Options of the connection, with their defaults; "" is that of obstore."""

RETRY: Final = {"max_retries": "5", "retry_timeout": "60s"}
"""Of acts that may be done twice. Conditional puts are never tried again in here."""

_DURATIONS: Final = {"connect_timeout", "timeout", "retry_timeout"}


@dataclass(frozen=True, slots=True)
class Kind:
    """One protocol: its name for people, what its options are called, and what they were."""

    name: str
    prefixes: tuple[str, ...]
    options: frozenset[str]
    secrets: frozenset[str]
    other_names: Mapping[str, str]
    environment: Mapping[str, str]


def _kind(
    name: str,
    *,
    prefixes: tuple[str, ...],
    options: str,
    secrets: str,
    other_names: Mapping[str, str],
    environment: Mapping[str, str],
) -> Kind:
    secret = frozenset(secrets.split())
    return Kind(
        name, prefixes, frozenset(options.split()) | secret, secret, other_names, environment
    )


KINDS: Final = {
    "s3": _kind(
        "S3",
        prefixes=("aws_",),
        options="""
            endpoint region virtual_hosted_style_request skip_signature unsigned_payload
            server_side_encryption sse_kms_key_id sse_bucket_key_enabled request_payer
            checksum_algorithm disable_bulk_delete role_arn role_session_name sts_endpoint
            web_identity_token_file metadata_endpoint container_credentials_relative_uri
            container_credentials_full_uri container_authorization_token_file
        """,
        secrets="access_key_id secret_access_key session_token",
        other_names={
            "anonymous": "skip_signature",
            "default_region": "region",
            "endpoint_url": "endpoint",
            "endpoint_url_s3": "endpoint",
            "token": "session_token",
            "virtual_hosted_style": "virtual_hosted_style_request",
        },
        environment={
            "AWS_ACCESS_KEY_ID": "access_key_id",
            "AWS_SECRET_ACCESS_KEY": "secret_access_key",
            "AWS_SESSION_TOKEN": "session_token",
            "AWS_DEFAULT_REGION": "region",
            "AWS_REGION": "region",
            "AWS_ENDPOINT": "endpoint",
            "AWS_ENDPOINT_URL": "endpoint",
            "AWS_ENDPOINT_URL_S3": "endpoint",
            "AWS_ALLOW_HTTP": "allow_http",
            "AWS_SKIP_SIGNATURE": "skip_signature",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "virtual_hosted_style_request",
            "AWS_ROLE_ARN": "role_arn",
            "AWS_ROLE_SESSION_NAME": "role_session_name",
            "AWS_WEB_IDENTITY_TOKEN_FILE": "web_identity_token_file",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "container_credentials_relative_uri",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "container_credentials_full_uri",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "container_authorization_token_file",
        },
    ),
    "az": _kind(
        "Azure",
        prefixes=("azure_storage_", "azure_"),
        options="""
            account_name endpoint tenant_id client_id authority_host federated_token_file
            msi_endpoint msi_resource_id object_id use_azure_cli use_emulator use_fabric_endpoint
            skip_signature
        """,
        secrets="account_key sas_token client_secret token",
        other_names={
            "access_key": "account_key",
            "anonymous": "skip_signature",
            "bearer_token": "token",
            "key": "account_key",
            "sas_key": "sas_token",
        },
        environment={
            "AZURE_STORAGE_ACCOUNT_NAME": "account_name",
            "AZURE_STORAGE_ACCOUNT_KEY": "account_key",
            "AZURE_STORAGE_SAS_TOKEN": "sas_token",
            "AZURE_STORAGE_TOKEN": "token",
            "AZURE_STORAGE_ENDPOINT": "endpoint",
            "AZURE_STORAGE_USE_EMULATOR": "use_emulator",
            "AZURECLIENT_ID": "client_id",
            "AZURECLIENT_SECRET": "client_secret",
            "AZURE_TENANT_ID": "tenant_id",
            "AZURE_AUTHORITY_HOST": "authority_host",
            "AZURE_FEDERATED_TOKEN_FILE": "federated_token_file",
            "AZURE_ALLOW_HTTP": "allow_http",
        },
    ),
    "gs": _kind(
        "Google",
        prefixes=("google_", "gcs_"),
        options="service_account application_credentials base_url skip_signature",
        secrets="service_account_key bearer_token",
        other_names={
            "anonymous": "skip_signature",
            "endpoint": "base_url",
            "service_account_path": "service_account",
            "token": "bearer_token",
        },
        environment={
            "GOOGLE_APPLICATION_CREDENTIALS": "application_credentials",
            "GOOGLE_SERVICE_ACCOUNT": "service_account",
            "GOOGLE_SERVICE_ACCOUNT_PATH": "service_account",
            "GOOGLE_SERVICE_ACCOUNT_KEY": "service_account_key",
            "GOOGLE_BASE_URL": "base_url",
        },
    ),
}


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """All that opens one remote store again, credentials included: never shown."""

    kind: str
    container: str
    path: str
    values: Mapping[str, str] = field(repr=False)

    @property
    def store(self) -> dict[str, str]:
        """What the store itself is told."""
        return {k: v for k, v in self.values.items() if k in KINDS[self.kind].options}

    @property
    def client(self) -> dict[str, Any]:
        """What the connections are made with."""
        found = {k: v for k, v in {**CLIENT, **self.values}.items() if k in CLIENT and v}
        return {k: f"{parse_duration(v)}ns" if k in _DURATIONS else v for k, v in found.items()}

    @property
    def retry(self) -> dict[str, Any]:
        """How often acts that may be done twice are tried again."""
        found = {**RETRY, **self.values}
        micros = parse_duration(found["retry_timeout"]) // _MICROSECOND
        return {
            "backoff": _BACKOFF,
            "max_retries": int(found["max_retries"]),
            "retry_timeout": timedelta(microseconds=micros),
        }

    @property
    def secrets(self) -> list[str]:
        """What no message may show."""
        return [v for k, v in self.values.items() if k in KINDS[self.kind].secrets and v]


def read_options(kind: str, options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """Give options by their one name; raises ConfigError, which shows no value that is secret."""
    found: dict[str, str] = {}
    spoken: dict[str, str] = {}
    for name, value in options.items():
        key = _known(kind, name)
        if key in found:
            raise ConfigError(f"{spoken[key]} and {name} are one option", hint="give it once")
        found[key], spoken[key] = _text(name, value), name
    secrets = KINDS[kind].secrets
    said = {
        key: environ[name] for name, key in KINDS[kind].environment.items() if environ.get(name)
    }
    if secrets & found.keys():  # Half of one's credentials and half of another's open nothing.
        said = {key: value for key, value in said.items() if key not in secrets}
    found = {**said, **found}
    _check(kind, found)
    return found


def _known(kind: str, name: str) -> str:
    """Give the one name of an option."""
    table = KINDS[kind]
    short = name.lower().replace("-", "_")
    names = _names(kind)
    if short in names:
        return names[short]
    for prefix in table.prefixes:
        if short.startswith(prefix) and short[len(prefix) :] in names:
            return names[short[len(prefix) :]]
    near = difflib.get_close_matches(short, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(set(names)))}"
    raise ConfigError(f"{table.name} has no option {name!r:.60}", hint=hint)


def _names(kind: str) -> dict[str, str]:
    table = KINDS[kind]
    own: Iterable[str] = [*table.options, *CLIENT, *RETRY]
    return {**{name: name for name in own}, **table.other_names}


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ConfigError(f"{name}: a {type(value).__name__} is no text, number or truth value")


def _check(kind: str, found: dict[str, str]) -> None:
    """Refuse early what obstore would refuse late, or not at all."""
    for name in _DURATIONS & found.keys():
        if parse_duration(found[name], key=name) < _MICROSECOND:
            raise ConfigError(f"{name}: {found[name]} is no time at all")
    retries = found.get("max_retries", "0")
    if not (retries.isascii() and retries.isdigit()) or int(retries) > 100:  # noqa: PLR2004
        raise ConfigError(f"max_retries: {retries!r:.60} is not a number from 0 to 100")
    for name in ("endpoint", "base_url"):
        if name in found:
            _check_endpoint(name, found[name], allow_http=found.get("allow_http", "false"))
    if kind == "s3" and ("access_key_id" in found) != ("secret_access_key" in found):
        raise ConfigError("access_key_id and secret_access_key are given together or not at all")


def _check_endpoint(name: str, value: str, *, allow_http: str) -> None:
    scheme, separator, rest = value.partition("://")
    if not separator or scheme.lower() not in ("http", "https") or not rest.strip("/"):
        raise ConfigError(f"{name}: this is no address of a server", hint="as https://host:port")
    if any(letter in rest for letter in "@?#"):
        raise ConfigError(f"{name}: it may have no user, query or fragment")
    if scheme.lower() == "http" and allow_http.lower() not in ("true", "1", "yes", "on"):
        raise ConfigError(f"{name}: it is not encrypted", hint="if that is meant, set allow_http")
