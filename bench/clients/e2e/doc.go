// Package e2e produces real files through other people's clients, consumes them with others and compares.
//
// A client is a program that is called in one of two ways:
//
//	produce ADDR TOPIC FILE CODEC    sends the records of FILE (see recfile) to partition 0 in their order and
//	                                 prints how many were acknowledged. CODEC is none, gzip, snappy, lz4, zstd, or
//	                                 default: what the client does unasked, with idempotence
//	consume ADDR TOPIC COUNT -       reads COUNT records of partition 0 from offset 0, fails on a gap, and prints
//	                                 the count and the SHA-256 of the records in the encoding of FILE
//
// With its defaults every client produces every file of the Go source tree as a record. All the lines of these files
// (more than three million) follow through the clients that manage them within a minute; kafka-python and kafkajs, which
// take minutes, produce slowLines of them unless MILLRACE_TEST_E2E_WHOLE=1 asks for all. So the run takes about three minutes
// on two cores. With each codec a client produces a sample.
//
// To add one, write it into clients/ and name it in clients.go. A client whose runtime is missing is reported as
// not run; with MILLRACE_TEST_E2E_ALL=1 that is a failure.
package e2e
