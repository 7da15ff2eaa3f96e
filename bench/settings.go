package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Settings are what a part of a workload runs with.
type Settings struct {
	Partitions  int           `json:"partitions"`
	Connections int           `json:"connections"`                 // of producers; S1: all
	PerRequest  int           `json:"partitions_per_request"`      // one batch each
	Window      int           `json:"window"`                      // requests in flight on a connection
	Batch       int           `json:"batch_records"`               // records
	Size        int           `json:"record_bytes"`                // of a record's value
	Rate        float64       `json:"rate_per_second,omitempty"`   // requests a second in all; 0: as fast as the broker answers
	Bytes       int64         `json:"bytes,omitempty"`             // payload after which the measured part ends; 0: unlimited
	Duration    time.Duration `json:"duration_ns,omitempty"`       // after which it ends; 0: unlimited
	Warmup      time.Duration `json:"warmup_ns"`                   // before it begins
	Acks        int           `json:"acks"`                        // -1, 0 or 1
	Codec       string        `json:"codec"`                       // none, gzip, snappy, lz4 or zstd
	Idempotent  bool          `json:"idempotent"`                  // producers number their batches
	Readers     int           `json:"readers,omitempty"`           // each reads all partitions
	Idle        int           `json:"idle_connections,omitempty"`  // S1
	Flush       bool          `json:"fsync_before_acks,omitempty"` // flush.messages=1
	Many        int           `json:"partitions_beside,omitempty"` // S2
	Role        string        `json:"role,omitempty"`              // of a part within its workload
}

// Limits of what a run takes.
const (
	partitionsMax    = 100_000
	connectionsMax   = 20_000
	windowMax        = 10_000
	sizeMax          = 1 << 20
	rateMin, rateMax = 1, 1_000_000
	pacedMax         = 64        // connections at a fixed rate: each has a thread
	encodedBytesMax  = 1 << 30   // of all requests that are encoded before the run
	requestBytesMax  = 64 << 20  // brokers take 100 MiB
	batchBytesMax    = 1_048_588 // max.message.bytes of a topic that says nothing else
	idempotentWindow = 5         // what a broker remembers of a producer
)

// Codecs are the values of Settings.Codec.
func Codecs() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

// set takes the named setting over from given.
func (s *Settings) set(name string, given Settings) {
	switch name {
	case "partitions":
		s.Partitions = given.Partitions
	case "connections":
		s.Connections = given.Connections
	case "per-request":
		s.PerRequest = given.PerRequest
	case "window":
		s.Window = given.Window
	case "batch":
		s.Batch = given.Batch
	case "size":
		s.Size = given.Size
	case "rate":
		s.Rate = given.Rate
	case "bytes":
		s.Bytes = given.Bytes
	case "duration":
		s.Duration = given.Duration
	case "warmup":
		s.Warmup = given.Warmup
	case "acks":
		s.Acks = given.Acks
	case "codec":
		s.Codec = given.Codec
	case "idempotent":
		s.Idempotent = given.Idempotent
	case "readers":
		s.Readers = given.Readers
	case "idle":
		s.Idle = given.Idle
	}
}

// override takes what was given over s. What follows from it and was not given itself is made to fit: a
// limit of one kind takes the place of the default of the other, and a request spans no more partitions
// than its connection has.
func (s *Settings) override(names []string, given Settings) {
	was := *s
	for _, n := range names {
		s.set(n, given)
	}
	has := func(name string) bool { return slices.Contains(names, name) }
	if has("duration") && !has("bytes") && was.Bytes > 0 {
		s.Bytes = 0
	}
	if has("bytes") && !has("duration") {
		s.Duration = 0
	}
	if has("rate") && (s.Rate > 0) != (was.Rate > 0) {
		s.changePace(has)
	}
	if has("idempotent") && s.Idempotent && !has("window") {
		s.Window = min(s.Window, idempotentWindow)
	}
	if !has("connections") && has("partitions") && s.Role != roleIdle {
		s.Connections = max(min(s.Connections, s.Partitions), 1)
	}
	if !has("per-request") && s.Connections > 0 && s.Partitions > 0 {
		s.PerRequest = max(min(s.PerRequest, s.Partitions/s.producers()), 1)
	}
	if s.Acks == 0 && !has("window") {
		s.Window = 1
	}
}

// changePace makes a saturated load one at a fixed rate, or the other way round: a schedule must not wait for
// answers and ends by time, which a saturated load does not.
func (s *Settings) changePace(has func(name string) bool) {
	limited := has("bytes") || has("duration")
	like := saturated()
	if s.Rate > 0 {
		like = paced()
	}
	if !has("window") {
		s.Window = like.Window
		if s.Idempotent {
			s.Window = min(s.Window, idempotentWindow)
		}
	}
	if !limited {
		s.Bytes, s.Duration = like.Bytes, like.Duration
	}
}

// Below shortScale the warm-up shrinks too; parts shrink no further than the smallest.
const (
	shortScale  = 0.1
	scaledBytes = 100_000
	scaledTime  = 200 * time.Millisecond
)

// scale shrinks what a part does to a share of it; 0: it stays.
func (s *Settings) scale(share float64) {
	if share == 0 || share == 1 {
		return
	}
	s.Bytes = max(int64(float64(s.Bytes)*share), min(s.Bytes, scaledBytes))
	s.Duration = max(time.Duration(float64(s.Duration)*share), min(s.Duration, scaledTime))
	if share < shortScale {
		s.Warmup = time.Duration(float64(s.Warmup) * share / shortScale)
		if s.Role == roleMany {
			s.Partitions = max(int(float64(s.Partitions)*share/shortScale), 1)
		}
	}
}

// producers is the number of connections that produce.
func (s *Settings) producers() int {
	if s.Role == roleIdle {
		return max(s.Connections/10, 1)
	}
	return max(s.Connections, 1)
}

// validate returns everything that is senseless, or nil.
func (s *Settings) validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	between := func(name string, value, low, high int) {
		refuse(value < low || value > high, "--%s %d is not within %d and %d", name, value, low, high)
	}
	between("partitions", s.Partitions, 1, partitionsMax)
	between("connections", s.Connections, 1, connectionsMax)
	between("window", s.Window, 1, windowMax)
	between("size", s.Size, 1, sizeMax)
	between("batch", s.Batch, 1, batchBytesMax)
	between("per-request", s.PerRequest, 1, partitionsMax)
	if s.Readers != 0 {
		between("readers", s.Readers, 1, 1000)
	}
	refuse(s.Readers < 0, "--readers %d is below 0", s.Readers)
	refuse(s.Idle < 0 || s.Idle > connectionsMax, "--idle %d is not within 0 and %d", s.Idle, connectionsMax)
	refuse(s.Rate != 0 && !(s.Rate >= rateMin && s.Rate <= rateMax), "--rate %v is neither 0, for as fast as the broker answers, nor within %d and %d a second", s.Rate, rateMin, rateMax)
	refuse(s.Bytes < 0, "--bytes %d is below 0", s.Bytes)
	refuse(s.Duration < 0, "--duration %v is below 0", s.Duration)
	refuse(s.Warmup < 0, "--warmup %v is below 0", s.Warmup)
	refuse(s.Bytes == 0 && s.Duration == 0, "with neither --bytes nor --duration the run would not end")
	refuse(s.Acks < -1 || s.Acks > 1, "--acks %d is none of all (-1), 1 and 0", s.Acks)
	refuse(!slices.Contains(Codecs(), s.Codec), "--codec %q is none of %v", s.Codec, Codecs())
	if errs == nil {
		s.validateTogether(refuse)
	}
	return errors.Join(errs...)
}

// validateTogether looks at settings that are each possible.
func (s *Settings) validateTogether(refuse func(bad bool, format string, args ...any)) {
	producers := s.producers()
	refuse(s.Idempotent && s.Acks != -1, "--idempotent needs --acks all: a broker refuses numbered batches with less")
	refuse(s.Idempotent && s.Window > idempotentWindow, "--idempotent allows --window %d at most: a broker remembers no more batches of a producer", idempotentWindow)
	refuse(s.Acks == 0 && s.Window > 1, "--acks 0 has no answers to wait for, so --window %d means nothing", s.Window)
	refuse(s.Acks == 0 && s.Rate > 0, "--acks 0 has no answers, so a fixed rate has no latency to measure; use --acks 1 or all")
	refuse(s.Acks == 0 && s.Flush, "--acks 0 does not wait for the fsync that this workload is about")
	refuse(s.Rate > 0 && producers > pacedMax, "at a fixed rate each connection has a thread to itself: --connections %d at most", pacedMax)
	perConnection := max(s.Partitions/producers, 1)
	refuse(s.PerRequest > perConnection, "--per-request %d is more than the %d partitions that each of %d connections has", s.PerRequest, perConnection, producers)
	plain := plainBytes(s.Batch, s.Size)
	refuse(plain > batchBytesMax, "--batch %d of --size %d makes batches of %d bytes; topics take %d at most", s.Batch, s.Size, plain, batchBytesMax)
	refuse(plain*s.PerRequest > requestBytesMax, "--per-request %d makes requests of %d bytes; %d at most", s.PerRequest, plain*s.PerRequest, requestBytesMax)
	encoded := producers * plain * max(s.Partitions/producers, s.PerRequest)
	if s.PerRequest == perConnection {
		encoded = producers * plain * s.PerRequest
	}
	refuse(encoded > encodedBytesMax, "encoding all requests beforehand takes %d MB; %d at most: fewer partitions, or smaller batches", encoded/1e6, encodedBytesMax/1_000_000)
	refuse(s.Role == roleIdle && s.Connections < 10, "--connections %d: every tenth is active, so there must be 10", s.Connections)
	refuse(s.Role == roleEndToEnd && producers > s.Partitions, "--connections %d on %d partitions: end to end, each partition has one producer", producers, s.Partitions)
	refuse(s.Role == roleGroup && producers > s.Partitions, "--connections %d on %d partitions: each member of the group has one", producers, s.Partitions)
	refuse(s.Role == roleGroup && s.Duration > groupDurationMax, "--duration %v: %v at most, since members send no heartbeats", s.Duration, groupDurationMax)
	refuse(s.Role == roleEndToEnd && s.PerRequest > 1, "--per-request %d: end to end, a request brings one batch", s.PerRequest)
	refuse(slices.Contains([]string{roleLatency, roleEndToEnd, roleCold, roleAlone, roleBeside}, s.Role) && s.Rate == 0, "--rate 0: latency is measured at a fixed rate")
}

// plainBytes bounds the size of a batch before compression from above.
func plainBytes(records, size int) int { return 61 + records*(size+14) }

// durability names what an acknowledgement promises.
func (s *Settings) durability() string {
	switch {
	case s.Flush:
		return "fsync before each acknowledgement (flush.messages=1)"
	case s.Acks == 0:
		return "none: not acknowledged (acks=0)"
	case s.Acks == 1:
		return "written by the leader, fsync as the broker is set (acks=1)"
	}
	return "written by all in-sync replicas, fsync as the broker is set (acks=-1)"
}
