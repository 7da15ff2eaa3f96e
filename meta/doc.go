// Package meta runs the Raft group that holds the cluster's state: one etcd-raft group, its log and
// snapshots in Pebble, and the state machines that are registered at wiring.
//
// A single node is a group of one voter and takes the same path as any other. One goroutine owns the Raft
// node, the store and the machines; proposals from any number of goroutines are gathered by it and share
// one write and one fsync.
package meta
