"""Which addresses stand behind a Service: EndpointSlices, and the older Endpoints that tools still read."""
