"""The HTTPS server: from bytes of a connection to a `Request`, and from a `Response` to bytes.

`https_server` listens (`listener`, `tls`). `simple_connection` reads requests that are simple (`simple_request`),
`aiohttp_fallback` all others; `response_writer` sends answers and streams, which `stream_pacing` shares between
watchers. `body_budget` and `request_turns` bound what requests may cost. `exec_streams`, `spdy_relay` and `node_client`
carry exec, attach, port-forward and logs from and to nodes.
"""
