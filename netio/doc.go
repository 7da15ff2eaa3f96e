// Package netio carries length-prefixed frames over TCP connections on gnet event loops: limits,
// back-pressure, order of replies, idle and slow peers, half-close and draining. Of Kafka it knows only
// the 4-byte big-endian length that precedes each frame.
//
// Everything of a connection happens on its loop's goroutine: Handler methods are called there, and the
// methods of Conn and Exchange may only be called there. Other goroutines come in through Loop.Post.
package netio
