"""The controllers of analyses: which run belongs to which step, reading its source, Ready, and notifications."""
