// Package peer starts brokers for a comparison and ends them: this program's own, Apache Kafka from its
// published jars or from an installed distribution, and one that runs already, which is left alone.
//
// A broker that was started is a child that dies with this process. It is ended by its process number and its
// data lies below a directory that the caller made; nothing else is touched.
package peer
