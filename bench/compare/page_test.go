package compare

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"millrace/bench"
)

// sample is a report with two placements, hostile names and a broker that was measured in one round only.
func sample() *Report {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &Report{
		Format: Format, Command: "millrace bench compare --out a&b", Millrace: "v1", Commit: "c0ffee", Began: at, Ended: at.Add(time.Hour), Complete: true,
		Plan: Plan{Workloads: []string{"P1", "L1"}, Rounds: 4, Placements: []string{Pinned, Unpinned}, Scale: 0.25, Warm: time.Minute},
		Host: Host{Name: "h", Kernel: "6.1", CPU: "CPU <b>", CPUs: 4, BrokerCPUs: "0", LoadCPUs: "1,2,3", MemoryBytes: 8 << 30, FileSystem: "ext4", Device: "/dev/x", Mount: "rw"},
		Brokers: []Broker{{Name: "millrace", Version: "v1", Command: "millrace serve", Configuration: "a=b", Owned: true},
			{Name: "<script>alert(1)</script>", Version: "4.4.0", Command: "java", Configuration: "x=</pre><script>", Owned: true}},
	}
	for _, placement := range r.Plan.Placements {
		for round := 1; round <= 4; round++ {
			for side := range 2 {
				f := float64(1+5*side) * (1 + float64(round)/100)
				usage := &bench.Usage{CPUSecondsPerGB: f, MemoryPeakBytes: int64(f * 1e8)}
				r.Starts = append(r.Starts, Start{Round: round, Placement: placement, Side: side, Began: at, Seconds: 60, ReadySeconds: f / 10, Results: []*bench.Result{
					{Workload: "P1", Parts: []*bench.Figures{{Durability: "written", Settings: bench.Settings{Batch: 100, Size: 1024, Bytes: 1e9}, Produced: &bench.Flow{PayloadMBPerSec: 1000 / f}, Broker: usage, Notes: []string{"a note: of 1"}}}},
					{Workload: "L1", Parts: []*bench.Figures{{Durability: "written", Settings: bench.Settings{Batch: 10, Size: 1024, Rate: 2000}, Produced: &bench.Flow{}, Broker: usage,
						Latencies: []bench.Latency{{Of: "produce", Count: 10, P50: f, P99: 2 * f, P999: 9 * f, Histogram: histogram(f)}, {Of: bench.SendAfterDue, P50: 1}}}}},
				}})
			}
		}
	}
	return r
}

// TestPage holds the page's structure against a golden one; MILLRACE_TEST_UPDATE=1 writes it anew.
func TestPage(t *testing.T) {
	r := sample()
	if err := r.evaluate(); err != nil {
		t.Fatal(err)
	}
	r.Notes = r.notes()
	raw, err := r.page()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "http://", "https://", "src=", "@import", "url(", "ZgotmplZ", "NaN", "Inf"} {
		if strings.Contains(string(raw), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	got := outline(t, string(raw))
	golden := filepath.Join("testdata", "page.golden")
	if os.Getenv("MILLRACE_TEST_UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the page's structure is not that of %s:\n%s", golden, got)
	}
}

// outline lists elements with what tells them apart and their text, without the style.
func outline(t *testing.T, page string) string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var b strings.Builder
	depth, style := 0, false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatalf("the page is not well formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			style = e.Name.Local == "style"
			fmt.Fprintf(&b, "%s%s", strings.Repeat(" ", depth), e.Name.Local)
			for _, a := range e.Attr {
				if a.Name.Local == "class" || a.Name.Local == "id" || a.Name.Local == "aria-label" {
					fmt.Fprintf(&b, " %s=%q", a.Name.Local, a.Value)
				}
			}
			b.WriteByte('\n')
			depth++
		case xml.EndElement:
			depth--
			style = false
		case xml.CharData:
			if s := strings.TrimSpace(string(e)); s != "" && !style {
				fmt.Fprintf(&b, "%s%q\n", strings.Repeat(" ", depth), s)
			}
		}
	}
}

func TestGoesOn(t *testing.T) {
	if err := sample().goesOn(sample()); err != nil {
		t.Error(err)
	}
	f := func(want string, change func(r *Report)) {
		t.Helper()
		other := sample()
		change(other)
		if err := sample().goesOn(other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f("rounds: 5 then, 4 now", func(r *Report) { r.Plan.Rounds = 5 })
	f("workloads", func(r *Report) { r.Plan.Workloads = r.Plan.Workloads[:1] })
	f("broker", func(r *Report) { r.Brokers[1].Version = "3" })
	f("configuration of millrace", func(r *Report) { r.Brokers[0].Configuration = "a=c" })
	f("kernel", func(r *Report) { r.Host.Kernel = "5" })
	f("millrace", func(r *Report) { r.Commit = "dead" })
}

// histogram encodes a thousand latencies of so many milliseconds, and one of ten times that.
func histogram(ms float64) string {
	h := hdrhistogram.New(1, 1e9, 3)
	_ = h.RecordValues(int64(ms*1000), 1000) // within the bounds
	_ = h.RecordValue(int64(ms * 10_000))
	raw, _ := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return string(raw)
}
