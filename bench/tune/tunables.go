package tune

import (
	"slices"
	"strconv"
)

// Tunable is a setting whose best value differs from host to host.
type Tunable struct {
	Name    string   `json:"name"`    // in words
	Setting string   `json:"setting"` // of the broker
	Default string   `json:"default"` // what the broker takes by itself here
	Values  []string `json:"values"`  // worth a try here, without the default
	Reason  string   `json:"reason,omitempty"`
}

// Facts are what the values that are worth a try depend on.
type Facts struct {
	CPUs int // that the broker may run on
	// Ring tells that io_uring can be used in the directory, RingReason why not.
	Ring       bool
	RingReason string
}

// Tunables returns what is swept on a host. docs/benchmarking.md tells what was tried and left out, since its best
// value is the same everywhere.
func Tunables(f Facts) []Tunable {
	loops := Tunable{Name: "event loops", Setting: "millrace.net.loops", Default: strconv.Itoa(max(f.CPUs/2, 1))}
	for _, n := range []int{1, f.CPUs / 4, f.CPUs * 3 / 4, f.CPUs} {
		value := strconv.Itoa(n)
		if n > 0 && value != loops.Default && !slices.Contains(loops.Values, value) {
			loops.Values = append(loops.Values, value)
		}
	}
	if len(loops.Values) == 0 {
		loops.Reason = "there is one processor"
	}
	backend := Tunable{Name: "disk backend", Setting: "millrace.io.backend", Default: "auto"}
	if f.Ring {
		backend.Values = []string{"ring", "posix"}
	} else {
		backend.Reason = "io_uring cannot be used: " + f.RingReason
	}
	return []Tunable{loops, backend}
}

// Variant is what a broker is started with.
type Variant struct {
	Name     string   `json:"name"`
	Settings []string `json:"settings"` // KEY=VALUE; none: the defaults
}

// variants returns what a sweep starts in each round: the defaults, the control, and each value by itself.
func variants(tunables []Tunable) []Variant {
	all := []Variant{{Name: "defaults"}, {Name: "defaults again"}}
	for _, t := range tunables {
		for _, v := range t.Values {
			setting := t.Setting + "=" + v
			all = append(all, Variant{Name: setting, Settings: []string{setting}})
		}
	}
	return all
}
