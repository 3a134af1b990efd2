//go:build tools

// Package lws pins the released LeaderWorkerSet manager that takeover tests and benchmarks run beside ours.
// It holds no code: `build.py` beside it compiles the imported command.
package lws

import (
	_ "sigs.k8s.io/lws/cmd"
)
