// Package group decides for consumer groups: who is a member, who leads, when a generation begins, which offsets
// are committed and when they expire. It is pure: requests and the time come in, replies and changes of durable
// state go out; there is no goroutine, clock, file or socket.
//
// A Coordinator holds the groups in memory: members, sessions, joins and syncs that wait. What must survive goes
// out as changes, which its owner has replicated, and which every Store of the cluster applies. The memory runs
// ahead of the store: a reply that rests on a change is given only when the change is applied, and when a change
// cannot be applied the memory is dropped and loaded from the store again. Sessions and joins are never
// replicated: after a restart or a change of the leader each member has a new session, as in Apache Kafka.
//
// The rules and the order of checks are those of Apache Kafka 4.4 (KIP-134, KIP-211, KIP-345, KIP-394, KIP-447,
// KIP-800, KIP-814).
package group
