"""What the API server does with a request once it is known who asks: read, watch, write, delete, and the rest.

`paths` says what a request is about, `catalog` which kinds are served, `routing` who answers. A `call` goes through
`reading`, `watching`, `writing` (with `patching`), `deletion` or a subresource; on the way `bodies` and `options` read
what was sent, `stamping` and `settling` decide what the server keeps for itself, `answers` writes the response.
"""
