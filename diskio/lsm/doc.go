// Package lsm holds what the users of Pebble share: the engine's index store and the log of meta.
package lsm
