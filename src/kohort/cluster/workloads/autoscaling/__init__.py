"""HorizontalPodAutoscalers: `replicas` decides by metrics, `behavior` limits changes, `pod_metrics` reads numbers."""
