"""What names stand for in pods.

`etc_hosts` is a file with names, `dns_zone` decides what the name server answers, `dns_messages` how that is encoded,
and `dns_server` serves it; `resolv_conf` is how pods find it. `service_forwarding` makes addresses of services reach
their endpoints, by `service_proxy` and `endpoint_choice`. `name_directory` keeps all of it current.
"""
