//go:build tools

// Package gateway_api pins the conformance suite of the Gateway API and the server that it sends requests to.
// The suite itself is run by the test beside this file; build.py compiles both.
package gateway_api

import (
	_ "sigs.k8s.io/gateway-api/conformance/echo-basic"
)
