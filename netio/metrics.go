package netio

// Metrics are the counters and gauges of a Server.
type Metrics struct{}
