// Package bench measures brokers that speak the Kafka protocol, from outside: it makes topics, loads them over
// raw connections with requests that are encoded once, reads them back with every checksum verified, and
// accounts what the broker's process used meanwhile. docs/benchmarking.md tells the method.
//
// Run does one workload of Workloads. The topics that it makes are deleted before it returns, also when it
// fails or its context ends. Its figures carry their unit in their names; a GB is 1e9 bytes, and payload is
// counted in bytes of uncompressed v2 batches.
//
// The package knows brokers only by address and process number.
package bench
