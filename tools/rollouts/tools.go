//go:build tools

// Package rollouts pins the released Kruise Rollouts manager that takeover tests run beside ours.
// It holds no code: `build.py` beside it compiles the imported command.
package rollouts

import (
	_ "github.com/openkruise/rollouts"
)
