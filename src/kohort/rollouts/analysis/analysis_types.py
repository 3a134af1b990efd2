"""Typed views of ReleaseAnalysis and AnalysisRun."""

from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, ObjectMeta
from kohort.objects.view import View
from kohort.rollouts.analysis.run_types import RunStatus


class SecretKeyRef(View, frozen=True):
    name: str = ""
    key: str = ""


class Tls(View, frozen=True):
    """How a server is trusted that speaks TLS."""

    ca_secret_ref: SecretKeyRef | None = None
    server_name: str = ""
    insecure_skip_verify: bool = False


class ScrapeSource(View, frozen=True):
    port: int = 0
    path: str = "/metrics"
    preset: str = "none"
    scheme: str = "http"
    tls: Tls | None = None
    token_secret_ref: SecretKeyRef | None = None


class PrometheusSource(View, frozen=True):
    address: str = ""
    preset: str = "none"
    step: str = "15s"
    tls: Tls | None = None
    token_secret_ref: SecretKeyRef | None = None
    pod_label: str = "pod"
    namespace_label: str = "namespace"


class GatewaySource(View, frozen=True):
    """The embedded gateway, which measures the requests of every pod."""


class Source(View, frozen=True):
    scrape: ScrapeSource | None = None
    prometheus: PrometheusSource | None = None
    gateway: GatewaySource | None = None


class Counters(View, frozen=True):
    total: str = ""
    good: str = ""
    bad: str = ""


class Metric(View, frozen=True):
    name: str = ""
    quantile: float | None = None
    max: int | str | None = None
    min: int | str | None = None
    max_ratio: float | None = None
    max_delta: int | str | None = None
    critical: bool = False
    advisory: bool = False
    histogram: str = ""
    counters: Counters | None = None
    gauge: str = ""
    query: str = ""


class Samples(View, frozen=True):
    canary: int = 200
    stable: int = 200


class OnError(View, frozen=True):
    after: int = 6
    then: str = "Hold"


class Notify(View, frozen=True):
    url: str = ""
    secret_ref: SecretKeyRef | None = None
    on: tuple[str, ...] = ()


class AnalysisSpec(View, frozen=True):
    mode: str = "DryRun"
    steps: JsonObject | None = None
    warmup: str = "60s"
    interval: str = "10s"
    deadline: str = "20m"
    source: Source = Source()
    min_samples: Samples = Samples()
    confidence: float = 0.99
    metrics: tuple[Metric, ...] = ()
    on_no_data: str = "Hold"
    on_inconclusive: str = "Hold"
    on_error: OnError = OnError()
    notify: tuple[Notify, ...] = ()


class AnalysisStatus(View, frozen=True):
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0


class ReleaseAnalysis(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: AnalysisSpec = AnalysisSpec()
    status: AnalysisStatus = AnalysisStatus()


class RunSpec(View, frozen=True):
    """Which step of which release is judged."""

    rollout: str = ""
    release: str = ""
    step: int = 0
    attempt: int = 0
    analysis: str = ""


class AnalysisRun(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: RunSpec = RunSpec()
    status: RunStatus = RunStatus()
