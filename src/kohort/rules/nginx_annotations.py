"""Annotations of nginx that split the requests of an Ingress: releases write them, the embedded gateway serves them."""

from typing import Final

PREFIX: Final = "nginx.ingress.kubernetes.io/"

# Without the prefix: other Ingress controllers use the same names with prefixes of their own.
CANARY: Final = "canary"
WEIGHT: Final = "canary-weight"
WEIGHT_TOTAL: Final = "canary-weight-total"
COOKIE: Final = "canary-by-cookie"
HEADER: Final = "canary-by-header"
HEADER_VALUE: Final = "canary-by-header-value"
HEADER_PATTERN: Final = "canary-by-header-pattern"
