// Package config is the one table of settings. It drives how settings are parsed and validated, what
// DescribeConfigs answers, what --print-config prints and what docs/configuration.md says.
//
// Names, defaults and types are those of Apache Kafka 4.4; settings of millrace alone begin with
// "millrace.". Each definition either takes effect, or is accepted although it has no meaning here and its
// documentation says so, or is refused with the reason.
//
// A value of a topic is looked for in the topic's own overrides, then in the dynamic configs of the
// broker, in the cluster-wide dynamic configs of brokers, in the broker's static settings, and last in the
// table's default. Resolver does that and yields the typed Topic and the entries of DescribeConfigs.
//
// The package is pure: no files, no environment, no clock. Everything it returns is immutable.
package config
