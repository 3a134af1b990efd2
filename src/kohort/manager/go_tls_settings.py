"""TLS settings in Go's words, for OpenSSL."""

import ssl

from kohort.manager.configuration import ConfigurationError, Tls


def server_context(settings: Tls) -> ssl.SSLContext:
    """A context for the webhook and metrics servers; it offers HTTP/1.1 only and still needs a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    newest = settings.min_version == "VersionTLS13"
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if newest else ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if settings.cipher_suites:
        context.set_ciphers(":".join(openssl_name(name) for name in settings.cipher_suites))
    return context


def openssl_name(name: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is ECDHE-RSA-AES128-GCM-SHA256 for OpenSSL."""
    exchange, _, rest = name.removeprefix("TLS_").partition("_WITH_")
    cipher = rest.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("POLY1305_SHA256", "POLY1305")
    parts = ([] if exchange == "RSA" else exchange.split("_")) + cipher.removesuffix("_SHA").split("_")
    words = [*parts, "SHA"] if cipher.endswith("_SHA") else parts
    found = "-".join(word for word in words if word not in ("CBC",))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(found)
    except ssl.SSLError:
        raise ConfigurationError(f"tls.cipherSuites: {name!r} is not a cipher suite that can be used here") from None
    return found
