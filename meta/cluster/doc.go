// Package cluster is the state machine of cluster state: brokers, topics with their partitions, configs
// and blocks of producer ids. It is pure: commands come in, results and deltas go out; time and random
// ids are fields of commands, so that applying the same commands gives the same image everywhere.
//
// The hot path reads an Image, which is immutable and published through an atomic pointer. Topics live in
// persistent maps, hash tries for look-ups and a radix tree for their order, so that a change costs the
// depth of the trees, not the number of topics.
//
// Everything that only needs the request (legal names, legal config values, defaults) is the caller's
// business; what needs the state (existing names, collisions, partition counts, brokers) is judged here.
package cluster
