// Package diskio reaches files for the engine: batches of writes and syncs over io_uring or plain system
// calls, mappings for reads, and the host's answers about what is resident and what the file system can
// do. It knows files, rings, mappings and bytes, and nothing of records, offsets or topics.
//
// One contract, FS, stands in front of two backends (ring and posix) and of the simulated disk of
// diskio/disktest. unsafe, io_uring and mmap stay behind it.
package diskio
