"""Aggregated API servers: group versions that an APIService object leads to a Service for.

`availability` decides whether such a server can be asked, `registry` keeps what is known of each of them current, and
`merged_discovery` merges what they serve into discovery. `local_apiservices` and `definition_apiservices` say which
APIServices there are for what this server answers itself. Requests are passed on with the identity of the caller in
`X-Remote-*` headers, which the server believes because of the client certificate that is shown to it
(`outgoing/remote_servers.py`).
"""
