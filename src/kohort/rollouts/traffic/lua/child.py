"""The process in which scripts run. Started by its path: it must import nothing of the operator.

Orders and answers are frames of four bytes of length and JSON. An order is `{"script", "input", "seconds"}`; an answer
`{"result"}` or `{"problem"}`. A script that runs too long is ended by the kernel together with this process: an alarm
whose default action is death needs no cooperation of the interpreter, nor of the operator's clock.
"""

import json
import os
import resource
import signal
import struct
from typing import Any

import lupa.lua51 as lupa

LUA_BYTES = 32 << 20
SPARE_BYTES = 128 << 20
"""For the interpreter itself, beyond what the process has when it is ready."""


def confine() -> None:
    """Nothing to write to, nothing to start, no more memory than this."""
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[0])
    limit = pages * resource.getpagesize() + LUA_BYTES + SPARE_BYTES
    for what, most in (
        (resource.RLIMIT_AS, limit),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def run(prelude: str, order: dict[str, Any]) -> dict[str, str]:
    if order["script"].startswith("\x1b"):
        return {"problem": "is compiled code; only text is run"}
    lua = lupa.LuaRuntime(
        register_eval=False, register_builtins=False, max_memory=LUA_BYTES, unpack_returned_tuples=True
    )
    decode, encode = lua.execute(prelude)
    lua.globals()["obj"] = decode(order["input"])
    signal.setitimer(signal.ITIMER_REAL, order["seconds"])
    try:
        text = encode(lua.execute(order["script"], name="=script"))
        return {"result": text.decode() if isinstance(text, bytes) else text}
    except (lupa.LuaMemoryError, MemoryError):
        return {"problem": f"needs more than {LUA_BYTES >> 20} MiB of memory"}
    except Exception as problem:
        return {"problem": str(problem) or "failed without saying why"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def read_exactly(stream: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = os.read(stream, count - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "prelude.lua")) as file:
        prelude = file.read()
    run(prelude, {"script": "return obj", "input": "{}", "seconds": 5})
    confine()
    os.write(1, b"\x00\x00\x00\x00")
    while True:
        (length,) = struct.unpack(">I", read_exactly(0, 4))
        order = json.loads(read_exactly(0, length))
        output = json.dumps(run(prelude, order)).encode()
        data = struct.pack(">I", len(output)) + output
        while data:
            data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()
