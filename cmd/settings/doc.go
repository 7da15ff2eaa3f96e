// Package settings gathers the static settings of a broker from the command line, the environment and a
// properties file, in this order of precedence, and hands them to meta/config, which knows what they mean.
// It is the only reader of these three.
package settings
