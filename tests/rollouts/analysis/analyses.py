"""ReleaseAnalyses for tests."""

from kohort.objects.json_types import Json, JsonObject

METRICS: list[JsonObject] = [
    {"name": "ttft", "quantile": 0.95, "max": "2s", "maxRatio": 1.15},
    {"name": "itl", "quantile": 0.95, "maxRatio": 1.10},
    {"name": "errorRate", "max": "2%", "maxDelta": "0.5%", "critical": True},
    {"name": "queueDepth", "max": 32, "advisory": True},
]


def analysis_spec(**changes: Json) -> JsonObject:
    return {
        "mode": "Enforce",
        "steps": {"from": 1},
        "warmup": "60s",
        "interval": "10s",
        "deadline": "20m",
        "source": {"scrape": {"port": 8080, "path": "/metrics", "preset": "vllm"}},
        "minSamples": {"canary": 200, "stable": 200},
        "confidence": 0.99,
        "metrics": METRICS,
        "onNoData": "Hold",
        "onInconclusive": "Hold",
        "onError": {"after": 6, "then": "Hold"},
        **changes,
    }
