"""HorizontalPodAutoscalers: `metric_evaluation` computes a metric, `replicas` decides by its numbers, `behavior` limits
changes, `scale_target` reads and writes the scale, `controller` does all of it every fifteen seconds."""
