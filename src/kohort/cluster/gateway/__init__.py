"""The data plane of an embedded cluster: requests from a loopback port to pods, as Ingresses and HTTPRoutes say."""
