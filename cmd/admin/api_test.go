package admin

import (
	"cmp"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestListBounds: a list ends where the names that clients chose would make it large.
func TestListBounds(t *testing.T) {
	f := func(names []string, query string, wantMatches, wantRows int) {
		t.Helper()
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		l := listed(&parameters{values: values}, names, func(s *string) string { return *s }, func(a, b *string) int { return cmp.Compare(*a, *b) })
		if l.Total != len(names) || l.Matches != wantMatches || len(l.Rows) != wantRows {
			t.Errorf("%d of %d, %d rows, want %d and %d", l.Matches, l.Total, len(l.Rows), wantMatches, wantRows)
		}
	}
	long := strings.Repeat("x", listBytesMax/2-10)
	f([]string{long + "a", "b", long + "c", long + "d"}, "", 4, 3)
	f([]string{"b", "ba", "c"}, "filter=b", 2, 2)
	f([]string{"b", "ba", "c"}, "limit=1", 3, 1)
	f([]string{strings.Repeat("x", listBytesMax+1)}, "", 1, 0)
}

// TestBoardTakesItsTime: a look that takes long is believed for longer.
func TestBoardTakesItsTime(t *testing.T) {
	var b board[int]
	looks := 0
	look := func() []int {
		return b.look(func(before []int, since float64) []int {
			looks++
			if (since > 0) != (len(before) > 0) {
				t.Errorf("%v seconds since %v", since, before)
			}
			return []int{looks}
		})
	}
	f := func(age, took time.Duration, want int) {
		t.Helper()
		b.at, b.took = time.Now().Add(-age), took
		if got := look(); got[0] != want {
			t.Errorf("after %v, having taken %v: look %d, want %d", age, took, got[0], want)
		}
	}
	if got := look(); got[0] != 1 {
		t.Errorf("the first look is %v", got)
	}
	f(500*time.Millisecond, 0, 1)
	f(1100*time.Millisecond, 0, 2)
	f(1100*time.Millisecond, 100*time.Millisecond, 2)
	f(3*time.Second, 100*time.Millisecond, 3)
	f(10*time.Second, time.Minute, 3)
	f(20*time.Second, time.Minute, 4)
}
