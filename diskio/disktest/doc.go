// Package disktest holds a simulated disk behind the contract of diskio, and the test suite that every
// implementation of that contract passes.
//
// Disk keeps files in memory and keeps apart what is durable from what is not, so that a test can cut the
// power at any operation and look at what a machine might find afterwards. It fails operations on demand,
// fills up, and flips bits. Disk.PebbleFS gives Pebble the same disk.
package disktest
