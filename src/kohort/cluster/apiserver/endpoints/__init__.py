"""What the API server does with a request once it is known who asks: read, watch, write, delete, and the rest.

`paths` says what a request is about, `routing` chooses the endpoint. A request (`request_context`) goes through
`reading`, `watching`, `writing` (with `patching`), `deletion` or a subresource; on the way `request_bodies` and
`query_options` read what was sent, `system_metadata` and `preserved_fields` decide what the server keeps for itself,
and `object_responses` writes the answer. Logs, exec and proxies of pods begin in `node_connections`.
"""
