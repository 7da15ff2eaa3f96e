// Package hostspeed measures what the parts of a host give that a broker stands on: a directory's file system by both
// disk backends, syncs, memory, checksums and the loopback. It takes some seconds, writes below the directory it is
// given, and removes what it wrote.
package hostspeed
