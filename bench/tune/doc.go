// Package tune finds out which settings of a millrace broker are the best on this host. It starts brokers of its
// own on fresh directories, loads them with workloads of bench, each candidate in turn with the defaults, and
// recommends what is better by more than noise, and nothing else.
//
// A sweep measures the defaults, the defaults once more as a control, and each value of each tunable, one after
// the other in each round. What is better for the goal and worse in no figure of it is put together and measured
// again beside the defaults, in rounds of its own: what was picked because its figures were good may have been
// lucky. Only what that confirms is recommended.
package tune
