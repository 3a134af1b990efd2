// Package gateway_api runs the conformance suite of the Gateway API against a cluster without an image registry:
// the echo servers of the suite run as processes of the node, from a program that was built from the same module.
package gateway_api

import (
	"flag"
	"fmt"
	"io/fs"
	"regexp"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/gateway-api/conformance"
)

var echoServer = flag.String("echo-server", "", "Path of the echo server, which replaces its image in the manifests.")

// The name server of the suite is for UDPRoutes, which are not run: any program may stand for it.
var images = regexp.MustCompile(`(?m)^( *)image: \S*/(echo-basic|coredns):\S*$`)

func TestConformance(t *testing.T) {
	options := conformance.DefaultOptions(t)
	options.ManifestFS = []fs.FS{manifests(t, *echoServer)}
	conformance.RunConformanceWithOptions(t, options)
}

// manifests are those of the suite, with the echo server's image replaced.
func manifests(t *testing.T, program string) fs.FS {
	t.Helper()
	changed := fstest.MapFS{}
	command := []byte(fmt.Sprintf("${1}image: host\n${1}command: [%q]", program))
	err := fs.WalkDir(conformance.Manifests, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(conformance.Manifests, path)
		if err != nil {
			return err
		}
		if program != "" {
			text = images.ReplaceAll(text, command)
		}
		changed[path] = &fstest.MapFile{Data: text, Mode: 0o444}
		return nil
	})
	if err != nil {
		t.Fatalf("the manifests of the suite cannot be read: %v", err)
	}
	return changed
}
