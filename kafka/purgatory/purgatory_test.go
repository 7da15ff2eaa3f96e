package purgatory

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestWaitsAreFoundByKeyAndTime(t *testing.T) {
	var emptied []string
	s := NewSet(func(k string) { emptied = append(emptied, k) })
	var a, b, c Wait[string]
	s.Add(&a, 30, []string{"x", "y"})
	s.Add(&b, 10, []string{"y"})
	s.Add(&c, 20, nil)
	if got := s.Watching("y"); len(got) != 2 || !slices.Contains(got, &a) || !slices.Contains(got, &b) {
		t.Fatalf("watching y: %v", got)
	}
	if at, ok := s.Next(); !ok || at != 10 {
		t.Fatalf("next %d %v", at, ok)
	}
	if s.Due(9) != nil || s.Due(15) != &b || s.Due(15) != nil || s.Due(25) != &c {
		t.Fatal("due waits are not those whose time has come")
	}
	s.Remove(&a)
	s.Remove(&a)
	slices.Sort(emptied)
	if !slices.Equal(emptied, []string{"x", "y"}) || s.Len() != 0 {
		t.Fatalf("emptied %v, %d left", emptied, s.Len())
	}
}

func TestRandomHistoriesAgreeWithAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	watched := map[int]bool{}
	s := NewSet(func(k int) { delete(watched, k) })
	waits := make([]Wait[int], 20)
	model := map[*Wait[int]][]int{}
	for step := range 20000 {
		w := &waits[r.IntN(len(waits))]
		switch {
		case !w.Waiting():
			keys := r.Perm(10)[:r.IntN(4)]
			for _, k := range keys {
				watched[k] = true
			}
			s.Add(w, int64(step+r.IntN(50)), keys)
			model[w] = keys
		case r.IntN(2) == 0:
			s.Remove(w)
			delete(model, w)
		default:
			for w := s.Due(int64(step)); w != nil; w = s.Due(int64(step)) {
				delete(model, w)
			}
		}
		if s.Len() != len(model) {
			t.Fatalf("step %d: %d waits, model has %d", step, s.Len(), len(model))
		}
		for k := range 10 {
			want := 0
			for _, keys := range model {
				if slices.Contains(keys, k) {
					want++
				}
			}
			if got := len(s.Watching(k)); got != want || watched[k] != (want > 0) {
				t.Fatalf("step %d key %d: %d watch, want %d", step, k, got, want)
			}
		}
	}
}

func TestReuseDoesNotAllocate(t *testing.T) {
	s := NewSet[int](nil)
	var w Wait[int]
	keys := []int{1, 2, 3}
	if n := testing.AllocsPerRun(100, func() { s.Add(&w, 1, keys); s.Watching(2); s.Remove(&w) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
