// Package doctor looks at the host that a broker is to run on and says what is in the way, each with the
// command that repairs it. It changes nothing.
package doctor
