// Package perf is the leaf that every layer may use: pooled byte buffers, checksums and facts about the
// host. It knows nothing of a broker and imports only the standard library and x/sys.
package perf
