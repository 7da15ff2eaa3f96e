// Package admin serves what operators ask a broker by HTTP: a page to look at the broker and its records with, the JSON
// behind it under /api/, /metrics in Prometheus' text format, /healthz, /readyz and /debug/pprof. It only reads. The
// counters themselves are plain numbers of the packages that own them; only this package knows Prometheus.
package admin
