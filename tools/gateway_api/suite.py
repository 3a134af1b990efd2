"""The conformance suite of the Gateway API, profile GATEWAY-HTTP, run against the gateway of an embedded cluster.

    python -m tools.gateway_api.suite [--report FILE] [arguments of the suite, such as -run-test HTTPRouteWeight]

The cluster exists for this run only, with the official definitions of the Gateway API. Backends are the echo server of
the suite, as processes in network namespaces of their own, and Gateways have loopback addresses with the ports that
their listeners name, 80 and 443: the run needs root.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.gateway_api.build import build, definitions, echo_server

PROFILE: Final = "GATEWAY-HTTP"
EXTENDED: Final = (
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayPort8080",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteSchemeRedirect",
)
"""Features beyond the core that the gateway has."""


def run_suite(arguments: list[str], report: Path) -> int:
    """The exit code of the suite; its report is written to a file."""
    program = build()
    with tempfile.TemporaryDirectory() as folder:
        # Echo servers run under the users of their pods, which see no other user's home.
        Path(folder).chmod(0o755)
        echo = Path(folder) / "echo-basic"
        echo.write_bytes(echo_server().read_bytes())
        echo.chmod(0o755)
        data = ["--data-dir", f"{folder}/data"]
        kohort = str(Path(sys.executable).with_name("kohort"))
        subprocess.run([kohort, "up", *data, "--port", "0", "--detach"], check=True, stdout=subprocess.DEVNULL)
        try:
            environment = {**os.environ, "KUBECONFIG": f"{folder}/data/kubeconfig"}
            install = ["kubectl", "apply", "--server-side", "--force-conflicts", "-f", str(definitions())]
            subprocess.run(install, env=environment, check=True, stdout=subprocess.DEVNULL)
            command = [
                str(program),
                f"-echo-server={echo}",
                "-gateway-class=kohort",
                f"-conformance-profiles={PROFILE}",
                f"-supported-features={','.join(EXTENDED)}",
                f"-report-output={report}",
                "-organization=kohort",
                "-project=kohort",
                "-url=https://kohort.dev",
                "-version=0",
                "-contact=kohort.dev",
                "-cleanup-base-resources=false",
                "-test.timeout=60m",
                *arguments,
            ]
            return subprocess.run(command, env=environment, check=False).returncode
        finally:
            subprocess.run([kohort, "down", *data], check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    words = sys.argv[1:]
    target = Path(words.pop(words.index("--report") + 1)) if "--report" in words else Path("gateway-api-report.yaml")
    words = [word for word in words if word != "--report"]
    try:
        raise SystemExit(run_suite(words, target.resolve()))
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"the suite could not be run: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
