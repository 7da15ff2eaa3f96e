// Package netio carries length-prefixed frames over TCP connections on gnet event loops: limits,
// back-pressure, order of replies, idle and slow peers, half-close and draining. Of Kafka it knows only
// the 4-byte big-endian length that precedes each frame.
//
// Everything of a connection happens on its loop's goroutine: Handler methods are called there, and the
// methods of Conn and Exchange may only be called there (but see Exchange). Other goroutines come in through Loop.Post.
//
// # How it is built
//
// A Loop runs gnet's poller (pkg/netpoll) and reads and writes its sockets itself, because back-pressure,
// half-close and accepting without descriptors are out of reach of gnet's engine (see Loop). Sockets are
// registered once, edge-triggered. An event only sets a flag; Loop.pump then moves the connection as far
// as it may go: send, take requests, send again, close. Not reading is all that pausing takes.
//
// The assembler cuts bytes into frames without knowing where they come from. Small frames are handed out in
// place from the loop's chunk; a frame that lacks 16 KiB or more is read straight into a leased buffer
// whose room follows the bytes that arrived.
//
// What a server holds is bounded by InflightBytesMax for everything inbound (frames being received, frames
// being answered, what the handler charges; see budget for why waiting cannot lock up), by OutboundBytesMax
// and one reply for each connection outbound, and by 1,024 exchanges a connection.
package netio
