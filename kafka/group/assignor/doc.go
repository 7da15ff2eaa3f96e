// Package assignor divides the partitions of a consumer group's topics among its members, as the broker's
// own assignors of KIP-848 do. It is pure: the same input gives the same output, whatever the order of the
// members.
//
// Two assignors exist, under the names that clients ask for:
//
//   - uniform gives every member as many partitions as the others, where subscriptions allow it, and moves
//     as few as possible from where they were;
//   - range gives each member of a topic one contiguous range of its partitions, the same range of every
//     topic where subscriptions and partition counts are alike, so that such topics are co-partitioned. It
//     is not sticky.
//
// Racks are not looked at, as in Apache Kafka 4.4.
package assignor
