// Command crosscheck holds the load of bench against other people's clients: it lets each produce the same number of
// records of 1 KB to a fresh millrace broker and read them back, and prints what each reached and what the broker's
// process used for a GB. Where the broker's figure hardly depends on the client, bench's load is a fair one.
//
//	go run ./bench/crosscheck [-binary bin/millrace] [-records 500000] [-rounds 3] [-rdkafka PROGRAM] [-dir DIR]
//
// The clients are bench's P1 and F1, franz-go's kgo, Apache Kafka's ProducerPerformance and ConsumerPerformance (Java
// and Maven needed) and librdkafka's rdkafka_performance (looked for in PATH). What cannot be had is said and left out.
// The broker runs on the first processor, the clients on the others.
package main
