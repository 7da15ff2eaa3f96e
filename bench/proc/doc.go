// Package proc reads what a process of this host has used: processor time, memory and bytes of disk, from
// /proc. It needs no right beyond that of the process's own user; input and output are left out where the
// kernel refuses them.
package proc
