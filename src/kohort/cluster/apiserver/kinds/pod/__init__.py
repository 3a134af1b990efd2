"""Pods and the templates of pods: defaults, rules, allowed changes, resize. The largest kind by far, so a package."""
