"""gRPC in asyncio on `h2`: what container runtimes and device plugins speak over unix sockets.

| module          | what is in it                                                                    |
|-----------------|----------------------------------------------------------------------------------|
| `codec`         | messages: structs whose fields carry protobuf numbers, and their wire form        |
| `status`        | codes and errors of calls, and the description of a method                        |
| `http2`         | one connection, as client or server: streams, flow control, limits                |
| `client`        | `Channel`: calls, server streams, deadlines; connects when it must                |
| `server`        | `Server`: unary and server-streaming methods on a unix socket                     |

Neither `grpcio` nor `protobuf` is used: 20 MB of memory against 2.5, and no compiled wheel. The price is a call that
takes 0.5 ms where grpcio takes 0.35. Client streams, compression and TLS are absent because no peer of a node agent
needs them.
"""
