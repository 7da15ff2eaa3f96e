// Package admin serves what operators ask a broker by HTTP: /metrics in Prometheus' text format, /healthz,
// /readyz and /debug/pprof. The counters themselves are plain numbers of the packages that own them; only
// this package knows Prometheus.
package admin
