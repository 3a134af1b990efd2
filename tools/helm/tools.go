//go:build tools

// Package helm pins the Helm that renders the chart in tests.
// It holds no code: `build.py` beside it compiles the imported command.
package helm

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
