package netio

import "sync/atomic"

// Cause says why a connection was closed.
type Cause uint8

// The causes of closing. Zero means none.
const (
	CausePeer          Cause = iota + 1 // the peer closed and nothing was due to it
	CauseIO                             // reset, or an error of the socket
	CauseFrameInvalid                   // length of zero or less
	CauseFrameTooLarge                  // length above FrameBytesMax
	CauseFrameNeverFit                  // length above what InflightBytesMax can ever admit
	CauseIdle                           // no complete request for IdleTimeout
	CauseSlow                           // took none of the unsent bytes for SlowTimeout
	CauseStalled                        // held bytes of an unfinished frame while others waited for memory
	CauseHandler                        // Conn.Close or Exchange.Close
	CauseStop                           // Server.Stop
	causes
)

// String returns the cause as a metric label.
func (c Cause) String() string {
	switch c {
	case CausePeer:
		return "peer"
	case CauseIO:
		return "io"
	case CauseFrameInvalid:
		return "frame_invalid"
	case CauseFrameTooLarge:
		return "frame_too_large"
	case CauseFrameNeverFit:
		return "frame_never_fit"
	case CauseIdle:
		return "idle"
	case CauseSlow:
		return "slow"
	case CauseStalled:
		return "stalled"
	case CauseHandler:
		return "handler"
	case CauseStop:
		return "stop"
	}
	return "none"
}

// Causes lists every cause, for exporters.
func Causes() []Cause {
	all := make([]Cause, 0, causes-1)
	for c := CausePeer; c < causes; c++ {
		all = append(all, c)
	}
	return all
}

// Metrics are the counters and gauges of a Server. Counters only grow; all may be read at any time.
type Metrics struct {
	ConnectionsOpen    atomic.Int64 // gauge
	ConnectionsTotal   atomic.Int64 // accepted and kept
	ConnectionsMax     atomic.Int64 // the limit in force, after RLIMIT_NOFILE
	RefusedTotal       atomic.Int64 // closed at once: ConnectionsMax
	RefusedPerAddress  atomic.Int64 // closed at once: limit of the address
	AcceptPauses       atomic.Int64 // times accepting paused for want of descriptors or kernel memory
	AcceptHolds        atomic.Int64 // times accepting waited for what Limits.Rate allows
	ConnectionRateMax  atomic.Int64 // gauge: Limits.Rate
	closed             [causes]atomic.Int64
	BytesIn            atomic.Int64
	BytesOut           atomic.Int64
	FramesIn           atomic.Int64
	OutboundBytes      atomic.Int64 // gauge: replies that wait for their turn or their peer
	InflightBytes      atomic.Int64 // gauge: frames being received or answered, and charges
	PausesInflight     atomic.Int64 // times a connection waited for InflightBytesMax
	PausesOutbound     atomic.Int64 // times a connection was not read for OutboundBytesMax
	PausesExchanges    atomic.Int64 // times a connection was not read for too many open exchanges
	ConnectionsWaiting atomic.Int64 // gauge: connections that wait for InflightBytesMax
}

// Closed returns how many connections were closed for the cause.
func (m *Metrics) Closed(c Cause) int64 { return m.closed[c].Load() }
