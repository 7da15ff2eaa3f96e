package bench

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run of a workload has found.
type Result struct {
	Workload string     `json:"workload"`
	Summary  string     `json:"summary"`
	Broker   string     `json:"broker"`
	Began    time.Time  `json:"began"`
	Ended    time.Time  `json:"ended"`
	Host     Host       `json:"host"`
	Parts    []*Figures `json:"parts"`
}

// Host says where the load ran, and where the broker did if it is known.
type Host struct {
	Millrace   string `json:"millrace"` // version of this program
	Kernel     string `json:"kernel"`
	CPU        string `json:"cpu"`
	CPUs       int    `json:"cpus"`
	LoadCPUs   string `json:"load_cpus"`             // that the load may run on
	BrokerPID  int    `json:"broker_pid,omitempty"`  // 0: not given
	BrokerCPUs string `json:"broker_cpus,omitempty"` // that the broker may run on
}

// Figures are those of one part of a workload, from the end of the warm-up to the last answer.
type Figures struct {
	Part       string    `json:"part,omitempty"`
	Settings   Settings  `json:"settings"`
	Durability string    `json:"durability,omitempty"`
	Seconds    float64   `json:"seconds"`
	Produced   *Flow     `json:"produced,omitempty"`
	Fetched    *Flow     `json:"fetched,omitempty"`
	Broker     *Usage    `json:"broker,omitempty"` // nil without the broker's process number
	LoadCPU    float64   `json:"load_cpu_seconds"`
	LoadPerGB  float64   `json:"load_cpu_seconds_per_gb"`
	Latencies  []Latency `json:"latencies,omitempty"`
	Extras     []Extra   `json:"extras,omitempty"`
	// Verified is how many records were read back and found to be what was produced, besides those of Fetched.
	Verified int64    `json:"verified_records,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// Flow is what went in one direction.
type Flow struct {
	Requests          int64   `json:"requests"`
	Batches           int64   `json:"batches"`
	Records           int64   `json:"records"`
	PayloadBytes      int64   `json:"payload_bytes"`  // uncompressed v2 batches
	SentBytes         int64   `json:"sent_bytes"`     // on the wire, to the broker
	ReceivedBytes     int64   `json:"received_bytes"` // on the wire, from the broker
	PayloadMBPerSec   float64 `json:"payload_mb_per_second"`
	RecordsPerSecond  float64 `json:"records_per_second"`
	RequestsPerSecond float64 `json:"requests_per_second"`
}

// Usage is what the broker's process used. What it is per is the sum of produced and fetched.
type Usage struct {
	CPUSeconds       float64 `json:"cpu_seconds"`
	CPUSecondsPerGB  float64 `json:"cpu_seconds_per_gb"`
	CPUNanosPerRec   float64 `json:"cpu_nanoseconds_per_record"`
	CPUMicrosPerReq  float64 `json:"cpu_microseconds_per_request"`
	MemoryPeakBytes  int64   `json:"memory_peak_bytes"` // anonymous and shared
	MappedPeakBytes  int64   `json:"mapped_file_peak_bytes"`
	HasIO            bool    `json:"has_io"`
	DiskReadBytes    int64   `json:"disk_read_bytes"`
	DiskWrittenBytes int64   `json:"disk_written_bytes"`
}

// SendAfterDue names the latency of the load itself: how long after its time a request of an open loop was
// sent. Where it is not far below the others, they tell of this host and not of the broker.
const SendAfterDue = "sent after due"

// Latency are percentiles in milliseconds.
type Latency struct {
	Of    string  `json:"of"`
	Count int64   `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p99_9_ms"`
	P9999 float64 `json:"p99_99_ms"`
	Max   float64 `json:"max_ms"`
	// Histogram has all that was counted, in microseconds, as HdrHistogram's compressed V2 encoding in base64;
	// empty unless it was asked for.
	Histogram string `json:"histogram,omitempty"`
}

// Extra is a figure that only one workload has.
type Extra struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

func newFlow(c counts, seconds float64) *Flow {
	return &Flow{Requests: c.requests, Batches: c.batches, Records: c.records, PayloadBytes: c.payloadBytes, SentBytes: c.sentBytes, ReceivedBytes: c.recvBytes,
		PayloadMBPerSec: ratio(float64(c.payloadBytes)/1e6, seconds), RecordsPerSecond: ratio(float64(c.records), seconds), RequestsPerSecond: ratio(float64(c.requests), seconds)}
}

// ratio is 0 where there is nothing to divide by: JSON has no infinity.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func newLatency(of string, h *hdrhistogram.Histogram) Latency {
	at := func(percentile float64) float64 { return float64(h.ValueAtPercentile(percentile)) / 1000 }
	return Latency{Of: of, Count: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), P9999: at(99.99), Max: float64(h.Max()) / 1000}
}

// PoolLatencies returns the percentiles of all that the latencies with a histogram counted. ok is false where
// none has one.
func PoolLatencies(of string, latencies []Latency) (pooled Latency, ok bool, err error) {
	all := newHistogram()
	for _, l := range latencies {
		if l.Histogram == "" {
			continue
		}
		h, err := hdrhistogram.Decode([]byte(l.Histogram))
		if err != nil {
			return Latency{}, false, fmt.Errorf("histogram of %s: %w", of, err)
		}
		all.Merge(h)
		ok = true
	}
	return newLatency(of, all), ok, nil
}

// per fills in what the broker used for so much work.
func (u *Usage) per(c counts) {
	u.CPUSecondsPerGB = ratio(u.CPUSeconds, float64(c.payloadBytes)/gb)
	u.CPUNanosPerRec = ratio(u.CPUSeconds*1e9, float64(c.records))
	u.CPUMicrosPerReq = ratio(u.CPUSeconds*1e6, float64(c.requests))
}
