// Package kafka answers the Kafka wire protocol: it implements netio.Handler, decodes produce requests into
// the engine's append buffers, encodes fetch replies from stored records, and answers everything else
// through kmsg structs off the event loops.
//
// Every API stands in one table (api.go) and in one file named by its key. Produce and Fetch run on the
// event loops, walk their requests in place and allocate nothing in the steady state; all other APIs run on
// workers, and so does the part of a Produce that is too much work for a loop. Requests of one connection are
// answered in order: a request that is not Produce or Fetch waits until the ones before it are finished, and
// those behind it wait for it.
package kafka
