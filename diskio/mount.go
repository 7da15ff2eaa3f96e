package diskio

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount tells of the file system that a directory lies on.
type Mount struct {
	// FileSystem is its type as the kernel names it: ext4, xfs, btrfs, tmpfs and so on.
	FileSystem string
	// Point is where it is mounted, Source the device or what stands for it.
	Point, Source string
	// Options are those of the mount and of the file system, joined by commas.
	Options string
}

// findMount looks dir up in /proc/self/mountinfo, and asks statfs for the type where that has no answer.
func findMount(dir string) Mount {
	path, err := filepath.Abs(dir)
	if err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
	}
	if table, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		if m, ok := parseMountInfo(string(table), path); ok {
			return m
		}
	}
	var stat unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &stat) }); err != nil {
		return Mount{FileSystem: "unknown"}
	}
	return Mount{FileSystem: fileSystemName(int64(stat.Type))}
}

// parseMountInfo finds the mount that path lies on: the longest mount point that leads to it, and the last of
// equals, which covers the others. Format: proc(5), "36 35 98:0 /root /point opts optional - type source super".
func parseMountInfo(table, path string) (best Mount, found bool) {
	for line := range strings.Lines(table) {
		front, back, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, rest := strings.Fields(front), strings.Fields(back)
		if !ok || len(fields) < 6 || len(rest) < 2 {
			continue
		}
		point := unescapeMount(fields[4])
		if !leadsTo(point, path) || found && len(point) < len(best.Point) {
			continue
		}
		options := fields[5]
		if len(rest) > 2 {
			options += "," + rest[2]
		}
		best, found = Mount{FileSystem: rest[0], Point: point, Source: unescapeMount(rest[1]), Options: options}, true
	}
	return best, found
}

// leadsTo tells whether path is dir or lies below it.
func leadsTo(dir, path string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// unescapeMount undoes the octal escapes of blanks and backslashes.
func unescapeMount(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// fileSystemName names the magic number that statfs answers.
func fileSystemName(magic int64) string {
	switch magic {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	case unix.F2FS_SUPER_MAGIC:
		return "f2fs"
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	default:
		return "magic 0x" + strconv.FormatInt(magic, 16)
	}
}
