package compare

import (
	"fmt"
	"testing"
)

// TestJudge holds verdicts and figures against values worked out by hand: p of the exact Mann-Whitney test of n
// against n samples that do not overlap is 2 / (2n over n).
func TestJudge(t *testing.T) {
	f := func(better string, a, b []float64, want string) {
		t.Helper()
		r := Row{Better: better, Noise: 0.1, A: a, B: b}
		r.Judge()
		got := fmt.Sprintf("%s/%s %s p %.4f: %s", Number(r.MedianA), Number(r.MedianB), r.Ratios(), r.P, r.Says())
		if got != want {
			t.Errorf("%v %v:\n got %s\nwant %s", a, b, got, want)
		}
	}
	f("lower", []float64{1, 1.05, 1.1}, []float64{6, 6.1, 6.2}, "1.05/6.1 0.172 (0.167-0.177) p 0.1000: too few rounds for a verdict")
	f("lower", []float64{1, 1.05, 1.1, 1.02}, []float64{6, 6.1, 6.2, 6.3}, "1.04/6.15 0.169 (0.162-0.177) p 0.0286: better (p 0.029)")
	f("higher", []float64{1, 1.05, 1.1, 1.02}, []float64{6, 6.1, 6.2, 6.3}, "1.04/6.15 0.169 (0.162-0.177) p 0.0286: worse (p 0.029)")
	f("higher", []float64{9, 8, 8.5, 8.2}, []float64{2, 1, 1.5, 1.2}, "8.35/1.35 6.25 (4.5-8) p 0.0286: better (p 0.029); host too noisy for how much")
	f("lower", []float64{1, 2, 0.5, 1}, []float64{1, 1, 1, 2}, "1/1 0.75 (0.5-2) p 1.0000: host too noisy for a verdict")
	f("lower", []float64{1, 1.01, 1.02, 1.03}, []float64{1.04, 1.05, 1.06, 1.07}, "1.02/1.06 0.962 (0.962-0.963) p 0.0286: no difference beyond noise (p 0.029)")
	f("lower", []float64{1, 2, 3, 4}, []float64{1, 2, 3, 4}, "2.5/2.5 1 (1-1) p 1.0000: no difference beyond noise (p 1.000)")
	f("lower", []float64{0, 1, 1, 1}, []float64{1, 1, 1, 1}, "1/1 - p 1.0000: too little to be measured")
	f("lower", nil, nil, "0/0 - p 0.0000: too little to be measured")
	f("lower", []float64{10, 11, 12, 13, 14, 15, 16}, []float64{20, 22, 24, 26, 28, 30, 32}, "13/26 0.5 (0.5-0.5) p 0.0006: better (p 0.001)")
}

func TestNumber(t *testing.T) {
	f := func(v float64, want string) {
		t.Helper()
		if got := Number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
	f(0, "0")
	f(0.4567, "0.457")
	f(12.345, "12.3")
	f(1234567, "1234567")
	f(99.96, "100")
	f(0.00001234, "1.23e-05")
}

func TestSteps(t *testing.T) {
	p := Plan{Rounds: 2, Placements: []string{Pinned, Unpinned}}
	want := "[{1 0 pinned} {1 1 pinned} {1 0 unpinned} {1 1 unpinned} {2 0 pinned} {2 1 pinned} {2 0 unpinned} {2 1 unpinned}]"
	if got := fmt.Sprint(p.steps()); got != want {
		t.Errorf("%s", got)
	}
}

func TestMountOf(t *testing.T) {
	const info = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw,errors=remount-ro
30 22 0:26 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=1k
31 22 8:1 / /srv/a\040b rw,noatime shared:2 master:1 - xfs /dev/sda1 rw,attr2
`
	f := func(dir, want string) {
		t.Helper()
		kind, device, options := mountOf(info, dir)
		if got := fmt.Sprint(kind, " ", device, " ", options); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
	f("/home/x", "ext4 /dev/root rw,relatime; rw,errors=remount-ro")
	f("/dev/shm", "tmpfs tmpfs rw,nosuid; rw,size=1k")
	f("/dev/shmoo", "ext4 /dev/root rw,relatime; rw,errors=remount-ro")
	f("/srv/a b/data", "xfs /dev/sda1 rw,noatime; rw,attr2")
}

func TestCPUs(t *testing.T) {
	f := func(placement string, all []int, want string) {
		t.Helper()
		broker, load := CPUs(placement, all)
		if got := fmt.Sprint(broker, load); got != want {
			t.Errorf("%s of %v: %s, want %s", placement, all, got, want)
		}
	}
	f(Pinned, []int{2, 3, 5}, "[2] [3 5]")
	f(Unpinned, []int{2, 3, 5}, "[] []")
}
