// Package wire holds the bytes of the load: v2 record batches and whole produce and fetch requests that are
// encoded once and patched before each use, the answers to them, and a check of every batch that comes back.
//
// It is written for little cost beside a broker: nothing here allocates per request once buffers have grown.
// Versions are fixed at Produce 7 and Fetch 11, the newest that are not flexible; brokers since 2.3 have them.
package wire
