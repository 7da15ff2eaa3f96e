// Package compare runs workloads of bench against two brokers, alternating between them, and says whether what
// it finds is more than noise. Run does that; its Report is written as JSON after each start of a broker, so
// that a comparison can go on where it ended, and as a page for a browser by WritePage.
//
// A round is one start of each broker, A then B, on a fresh data directory below one that Run made; all
// workloads run in it on new topics. Pairs are the figures of both brokers from one round and placement.
package compare
