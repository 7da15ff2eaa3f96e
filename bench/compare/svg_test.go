package compare

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChart holds the chart against a golden one; MILLRACE_TEST_UPDATE=1 writes it anew.
func TestChart(t *testing.T) {
	r := sample()
	if err := r.evaluate(); err != nil {
		t.Fatal(err)
	}
	got := r.Chart()
	for _, bad := range []string{"<script", "https://", "src=", "href", "@import", "url(", "NaN", "Inf"} {
		if strings.Contains(string(got), bad) {
			t.Errorf("the chart has %q", bad)
		}
	}
	d := xml.NewDecoder(strings.NewReader(string(got)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the chart is not well formed: %v", err)
		}
	}
	golden := filepath.Join("testdata", "chart.golden.svg")
	if os.Getenv("MILLRACE_TEST_UPDATE") != "" {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the chart is not that of %s:\n%s", golden, got)
	}
}

// TestChartOfNothing holds that a report without figures makes a chart that says so by having none.
func TestChartOfNothing(t *testing.T) {
	r := sample()
	r.Starts = nil
	if err := r.evaluate(); err != nil {
		t.Fatal(err)
	}
	if got := string(r.Chart()); strings.Contains(got, `class="head"`) || !strings.HasSuffix(got, "</svg>\n") {
		t.Error(got)
	}
}
