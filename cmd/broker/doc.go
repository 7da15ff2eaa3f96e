// Package broker wires one broker: data directory, disk backend, engine, Raft group, cluster state, the
// Kafka server, the network and the admin endpoint. It decides nothing about records or requests; it knows
// in which order the parts start and stop.
//
// Start: lock of the directory; engine and Raft group, side by side; after an unclean stop the leader epochs
// are raised; shards follow the cluster state; the broker registers itself; clients are let in. Stop is the
// reverse: clients are answered, then the parts are closed from the network inwards.
package broker
