package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/diskio"
)

// Level ranks a finding.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Note    Level = "note"    // slower or smaller than it could be
	Warning Level = "warning" // will hurt under load
	Serious Level = "serious" // a broker does not run, or not safely
)

// Finding is what one check found.
type Finding struct {
	Check string `json:"check"`
	// Directory is which data directory it is about; empty: all, or the only one.
	Directory string `json:"directory,omitempty"`
	Level     Level  `json:"level"`
	Found     string `json:"found"`
	Says      string `json:"says,omitempty"`   // what it means; empty where all is well
	Repair    string `json:"repair,omitempty"` // the command that repairs it
}

// Check runs every check. The order is fixed.
func Check(h Host) []Finding {
	found := []Finding{kernel(h), ioUring(h)}
	for i := range h.Directories {
		d := &h.Directories[i]
		of := []Finding{dataDirectory(d), fileSystem(d), space(d), inodes(d)}
		if len(h.Directories) > 1 {
			of = append(of, disk(d, h.Directories[:i]))
			for j := range of {
				of[j].Directory = d.Path
			}
		}
		found = append(found, of...)
	}
	return append(found, openFiles(h), lockedMemory(h), mapCount(h), hugePages(h), dirty(h), swap(h), clock(h), clockSource(h))
}

// disk looks for a directory before d on the same file system.
func disk(d *Directory, before []Directory) Finding {
	f := Finding{Check: "disk of its own", Level: OK, Found: d.Probe.Point}
	i := slices.IndexFunc(before, func(o Directory) bool { return o.Device == d.Device })
	if i >= 0 {
		f.Level, f.Found = Note, "the file system of "+before[i].Path
		f.Says = "two directories on one disk fail together, are no faster than one, and take its free room for twice as much"
		f.Repair = "mount a disk of its own on " + d.Path + ", or name only one of them in --data-dir (log.dirs)"
	}
	return f
}

// kernelMinimum has all that is used: io_uring with the opcodes in use, and cachestat is optional.
var kernelMinimum = [2]int{5, 10}

func kernel(h Host) Finding {
	f := Finding{Check: "kernel", Level: OK, Found: h.Kernel}
	major, minor, ok := kernelVersion(h.Kernel)
	switch {
	case !ok:
		f.Level, f.Says = Note, "the version cannot be told"
	case major < kernelMinimum[0] || major == kernelMinimum[0] && minor < kernelMinimum[1]:
		f.Level = Warning
		f.Says = fmt.Sprintf("older than %d.%d: the broker falls back to plain system calls", kernelMinimum[0], kernelMinimum[1])
		f.Repair = "install a kernel of version 5.10 or later, best 6.5 or later, and reboot"
	case !h.Directories[0].Probe.Cachestat && h.Directories[0].Probe.Err == nil:
		f.Level = Note
		f.Says = "no cachestat (Linux 6.5): what is in the page cache is found out at a higher cost"
		f.Repair = "install a kernel of version 6.5 or later and reboot"
	}
	return f
}

// kernelVersion reads "6.18.4-arch".
func kernelVersion(release string) (major, minor int, ok bool) {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	digits := strings.IndexFunc(parts[1], func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(parts[1])
	}
	minor, err = strconv.Atoi(parts[1][:digits])
	return major, minor, err == nil
}

func ioUring(h Host) Finding {
	f := Finding{Check: "io_uring", Level: OK, Found: "available"}
	if p := h.Directories[0].Probe; !p.Uring {
		f.Level, f.Found = Warning, "refused"
		f.Says = p.UringReason + "; the broker works by plain system calls, and syncs of many files take two to four times as long"
		f.Repair = p.UringRemedy
	}
	return f
}

func dataDirectory(d *Directory) Finding {
	f := Finding{Check: "data directory", Level: OK, Found: d.ProbedDir}
	switch {
	case d.Obstacle != "":
		f.Level, f.Found = Serious, d.Obstacle+" is not a directory"
		f.Says = "the data directory cannot be " + d.Path
		f.Repair = "give --data-dir another path"
	case d.Path != "" && d.Path != d.ProbedDir:
		f.Level, f.Found = Note, d.Path+" is missing"
		f.Says = "serve makes it at its first start; what is said of the file system is that of " + d.ProbedDir
		f.Repair = "check the path; where it is right, nothing is to be done"
	}
	return f
}

// volatile file systems lose everything with the machine; foreign ones lack what a log needs.
var (
	volatileSystems = []string{"tmpfs", "ramfs"}
	foreignSystems  = []string{"nfs", "nfs4", "cifs", "smb3", "fuse", "9p", "vboxsf", "overlay", "vfat", "exfat"}
)

func fileSystem(d *Directory) Finding {
	p := d.Probe
	f := Finding{Check: "file system", Level: OK, Found: fmt.Sprintf("%s on %s (%s), backend %s", p.FileSystem, p.Point, p.Options, p.Backend)}
	switch kind := p.FileSystem; {
	case p.Err != nil:
		f.Level, f.Found = Serious, d.ProbedDir
		f.Says = "the data directory cannot be used: " + p.Err.Error()
		dir := cmp.Or(d.Path, p.Dir)
		f.Repair = fmt.Sprintf("mkdir -p %s && chown $(id -u):$(id -g) %s", dir, dir)
	case slices.Contains(volatileSystems, kind):
		f.Level, f.Says = Warning, kind+" keeps its files in memory: all records are lost with the machine"
		f.Repair = "set --data-dir to a directory on a disk (ext4 or XFS)"
	case slices.Contains(foreignSystems, kind) || strings.HasPrefix(kind, "fuse."):
		f.Level, f.Says = Warning, kind+" is not made for a log: syncs, locks or mapped reads may be slow or missing"
		f.Repair = "set --data-dir to a directory on a local ext4 or XFS"
	case hasOption(p.Options, "nobarrier") || hasOption(p.Options, "barrier=0"):
		f.Level, f.Says = Warning, "mounted without barriers: a power loss takes records that were synced"
		f.Repair = "mount -o remount,barrier " + p.Point
	case hasOption(p.Options, "sync"):
		f.Level, f.Says = Warning, "mounted with sync: every write waits for the disk"
		f.Repair = "mount -o remount,async " + p.Point
	case !hasOption(p.Options, "noatime") && !hasOption(p.Options, "relatime") && !hasOption(p.Options, "lazytime"):
		f.Level, f.Says = Note, "each read may write an access time"
		f.Repair = "mount -o remount,noatime " + p.Point
	case !p.NowaitWrites && p.Backend == diskio.BackendRing:
		f.Says = p.Reason
	}
	return f
}

func hasOption(options, want string) bool { return slices.Contains(strings.Split(options, ","), want) }

func space(d *Directory) Finding {
	f := Finding{Check: "free space", Level: OK, Found: fmt.Sprintf("%s of %s", bytes(d.FreeBytes), bytes(d.TotalBytes))}
	switch {
	case d.TotalBytes == 0:
		f.Level, f.Found = Note, "unknown"
	case d.FreeBytes < 256<<20:
		f.Level, f.Says = Serious, "less than 256 MiB: writes will be refused soon"
		f.Repair = "du -xh --max-depth=2 " + d.Probe.Point + " | sort -h | tail"
	case d.FreeBytes < 4<<30, d.FreeBytes < d.TotalBytes/20:
		f.Level, f.Says = Warning, "less than 4 GiB or 5 %: one busy topic fills it before retention deletes"
		f.Repair = "free space, or bound topics with retention.bytes"
	}
	return f
}

func inodes(d *Directory) Finding {
	f := Finding{Check: "free inodes", Level: OK, Found: fmt.Sprintf("%d of %d", d.FreeFiles, d.TotalFiles)}
	switch {
	case d.TotalFiles == 0:
		f.Found = "not limited"
	case d.FreeFiles < 20_000:
		f.Level, f.Says = Warning, "fewer than 20,000: segments of many partitions will not fit"
		f.Repair = "find what holds many small files: du --inodes -x " + d.Probe.Point + " | sort -n | tail"
	}
	return f
}

func openFiles(h Host) Finding {
	f := Finding{Check: "open files", Level: OK, Found: limits(h.OpenFiles, "")}
	const want = 65_536
	const service = "LimitNOFILE=1048576 in the service's unit, or ulimit -n 1048576 in its shell"
	// The runtime raises the current limit to the highest one at the start.
	switch highest := h.OpenFiles.Highest; {
	case highest < 4096:
		f.Level, f.Says, f.Repair = Serious, "too few for connections and segments: some will be refused", service
	case highest < want:
		f.Level, f.Says, f.Repair = Note, fmt.Sprintf("below %d: enough for some thousand connections and partitions", want), service
	}
	return f
}

func lockedMemory(h Host) Finding {
	f := Finding{Check: "locked memory", Level: OK, Found: limits(h.LockedMemory, " bytes")}
	major, minor, ok := kernelVersion(h.Kernel)
	old := ok && (major < 5 || major == 5 && minor < 12)
	// From Linux 5.12 on rings are charged to the memory cgroup; before that, to this limit.
	if h.LockedMemory.Current < 8<<20 && old {
		f.Level = Warning
		f.Says = "below 8 MiB: before Linux 5.12 io_uring takes its memory from this limit"
		f.Repair = "LimitMEMLOCK=64M in the service's unit, or ulimit -l 65536 in its shell"
	}
	return f
}

func mapCount(h Host) Finding {
	n, f := number(h, "vm.max_map_count", "/proc/sys/vm/max_map_count")
	if f.Level == OK && n < 65_530 {
		f.Level, f.Says = Warning, "below the usual 65,530: fewer segments can be mapped at once"
		f.Repair = "sysctl -w vm.max_map_count=262144"
	} else if f.Level == OK && n < 262_144 {
		f.Says = "enough: mappings of segments are kept within it"
	}
	return f
}

func hugePages(h Host) Finding {
	text, err := h.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	f := Finding{Check: "transparent huge pages", Level: OK, Found: selected(text)}
	if err != nil {
		f.Found = "not in this kernel"
	} else if f.Found == "always" {
		f.Level, f.Says = Note, "always: memory that is barely used grows to whole huge pages, and latency has peaks"
		f.Repair = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
	}
	return f
}

// selected is the word in brackets of "always [madvise] never".
func selected(text string) string {
	_, rest, ok := strings.Cut(text, "[")
	word, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return text
	}
	return word
}

func dirty(h Host) Finding {
	ratio, f := number(h, "vm.dirty_ratio", "/proc/sys/vm/dirty_ratio")
	background, b := number(h, "", "/proc/sys/vm/dirty_background_ratio")
	if f.Level != OK || b.Level != OK {
		return f
	}
	f.Check, f.Found = "dirty ratios", fmt.Sprintf("vm.dirty_background_ratio %d, vm.dirty_ratio %d", background, ratio)
	switch {
	case ratio == 0 && background == 0:
		f.Says = "set in bytes (vm.dirty_bytes)"
	case ratio < 10:
		f.Level, f.Says = Warning, "writers are held up as soon as little is unwritten"
		f.Repair = "sysctl -w vm.dirty_ratio=40 vm.dirty_background_ratio=5"
	case background >= ratio:
		f.Level, f.Says = Warning, "writing back begins only when writers are held up already"
		f.Repair = "sysctl -w vm.dirty_background_ratio=5 vm.dirty_ratio=40"
	}
	return f
}

func swap(h Host) Finding {
	n, f := number(h, "vm.swappiness", "/proc/sys/vm/swappiness")
	text, err := h.ReadFile("/proc/swaps")
	if err == nil && strings.Count(strings.TrimSpace(text), "\n") == 0 {
		f.Found += ", no swap"
		return f
	}
	if f.Level == OK && n > 30 {
		f.Level, f.Says = Note, "the broker's own memory may be swapped out for the page cache that its records fill"
		f.Repair = "sysctl -w vm.swappiness=1"
	}
	return f
}

func clock(h Host) Finding {
	f := Finding{Check: "clock", Level: OK, Found: h.Now.UTC().Format(time.RFC3339)}
	switch {
	case h.Now.Year() < 2026 || h.Now.Year() > 2100:
		f.Level = Serious
		f.Says = "the clock is wrong: timestamps, retention and expiry follow it"
		f.Repair = "timedatectl set-ntp true"
	case h.SynchronizedKnown && !h.Synchronized:
		f.Level, f.Says = Note, "not synchronized, as far as the kernel knows: timestamps drift from those of clients"
		f.Repair = "timedatectl set-ntp true"
	}
	return f
}

func clockSource(h Host) Finding {
	text, err := h.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	f := Finding{Check: "clock source", Level: OK, Found: text}
	if err != nil {
		f.Found = "unknown"
	} else if slices.Contains([]string{"hpet", "acpi_pm", "jiffies"}, text) {
		f.Level, f.Says = Note, "reading the time is a slow system call with it"
		f.Repair = "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource, where that is listed in available_clocksource"
	}
	return f
}

// number reads one number of the kernel.
func number(h Host, check, path string) (int64, Finding) {
	f := Finding{Check: check, Level: OK}
	text, err := h.ReadFile(path)
	n := int64(0)
	if err == nil {
		n, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil {
		f.Level, f.Found, f.Says = Note, "unknown", err.Error()
		return 0, f
	}
	f.Found = text
	return n, f
}

func limits(l Limit, unit string) string {
	one := func(n uint64) string {
		if n == Infinity {
			return "unlimited"
		}
		return strconv.FormatUint(n, 10) + unit
	}
	if l.Current == l.Highest {
		return one(l.Current)
	}
	return one(l.Current) + ", at most " + one(l.Highest)
}

func bytes(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit+1 < len(units) {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.4g %s", value, units[unit])
}
