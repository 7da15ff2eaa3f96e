// Package brokertest starts a broker as its users do, as a process, and speaks to it in bytes.
//
// Nothing here uses the broker's own code: frames come from kmsg or from hex, batches from the builder in
// batch.go, whose every field can be set wrong. The same tests therefore run against any Kafka-wire broker:
// with MILLRACE_TEST_BROKER=host:port no process is started, and a test that needs settings, a restart or a
// kill skips with the reason. MILLRACE_TEST_BROKER_SETTINGS=key=value,... names the settings with which that
// broker was started, so that tests which ask for just these run.
// MILLRACE_TEST_BACKEND=ring|posix forces the disk backend of the brokers that are started.
package brokertest
