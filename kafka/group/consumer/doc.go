// Package consumer is one consumer group of the protocol of KIP-848, as pure rules: requests and the time
// come in, replies and changes go out. It knows of no coordinator, store, connection or clock.
//
// A Group answers the requests of its members with the checks, their order and the codes of Apache Kafka
// 4.4. It holds three things:
//
//   - a State, which is durable: epochs, members, the target assignment, the current assignments, resolved
//     regular expressions. It only changes by Changes, which each operation returns next to its reply. Whoever
//     applies the same changes in the same order to an empty State has the same group;
//   - timers, which are not: sessions, revocations that members owe, joins and syncs of classic members.
//     Deadline tells when the next one ends, Expire removes the members whose time is up. A Group made of a
//     loaded State gives every member a new session;
//   - what the caller decides: a Config, and a view of the topics that exist.
//
// A Group's memory runs ahead of what is stored: it has applied the changes it returns. The caller sends a
// reply only when they are durable, and when they cannot be made so it drops the Group and loads another
// one from what is stored.
//
// A partition never has two owners: a member counts as the owner of what it was told to revoke until it has
// reported without it, has left or was removed, and nobody else is given it before that.
//
// Members of the classic protocol may be in a Group while a group moves from one protocol to the other
// (FromClassic, JoinGroup, SyncGroup, ClassicHeartbeat, LeaveGroup). For them the member epoch is the generation.
// When the last member of the consumer protocol goes, and the policy allows it, the Group ends and an
// Outcome carries the ClassicGroup that takes its place.
//
// Nothing here is safe for concurrent use, except that what a State hands out is never written to: Members,
// assignments and Changes may be read anywhere. Requests may be reused after a call: what is kept of them is
// copied.
package consumer
