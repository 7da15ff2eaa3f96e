#!/usr/bin/env bash
# The end-to-end run on real files: MILLRACE=BINARY e2e/run.sh, or MILLRACE_TEST_BROKER=host:port against a running broker.
# MILLRACE_TEST_E2E_ALL=1 fails where a client's runtime is missing; MILLRACE_TEST_E2E_LINES=N bounds the lines that each client
# produces, MILLRACE_TEST_E2E_WHOLE=1 lets the slow ones produce all. doc.go says what is run.
set -euo pipefail
cd "$(dirname "$0")"
exec go test -count=1 -timeout 40m -v -run '^TestEndToEnd$' . 
