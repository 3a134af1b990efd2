#!/usr/bin/env bash
# documents.sh KUBECONFIG FOLDER: saves every OpenAPI v3 document of a kube-apiserver, the second source of main.go.
set -euo pipefail
kubectl=${KUBECTL:-kubectl}
mkdir -p "$2"
"$kubectl" --kubeconfig "$1" get --raw /openapi/v3 |
  grep -o '"serverRelativeURL": *"[^"]*"' | cut -d'"' -f4 | grep -E '/(api|apis/[^/]+)/v[0-9]+\?' |
  while read -r url; do
    path=${url#/openapi/v3/}
    path=${path%%\?*}
    "$kubectl" --kubeconfig "$1" get --raw "/openapi/v3/$path" > "$2/${path//\//__}.json"
  done
