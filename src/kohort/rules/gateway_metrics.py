"""What the embedded gateway publishes about requests, and where: it writes this, and releases read it.

The address is in a ConfigMap, since the gateway is a process of its own and listens on a port that the system chooses.
"""

from typing import Final

NAMESPACE: Final = "kohort-system"
CONFIG_MAP: Final = "kohort-gateway"
ADDRESS_KEY: Final = "metricsAddress"

# Series by namespace, Service and pod
REQUESTS: Final = "kohort_gateway_requests_total"
FIRST_BYTE: Final = "kohort_gateway_first_byte_seconds"
DURATION: Final = "kohort_gateway_request_seconds"
IN_FLIGHT: Final = "kohort_gateway_requests_in_flight"
