"""TLS as OpenSSL takes it, which also finds out whether certificate and key can be used."""

from __future__ import annotations

import ssl

from quiver.errors import ConfigError
from quiver.otel.receivers.settings import Tls

__all__ = ["context_of"]


def context_of(tls: Tls) -> ssl.SSLContext:
    """Make the context of a server; raises ConfigError, or StorageError for what is not there."""
    tls.read()  # Says by name which file cannot be read.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
        if tls.client_ca:
            context.load_verify_locations(tls.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            "the certificate, its key or client_ca cannot be used",
            hint="they are PEM, the key without a password and that of the first certificate",
        ) from error
    return context


def _no_password() -> str:
    raise ValueError
