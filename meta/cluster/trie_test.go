package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A trie agrees with a map, also where hashes are equal or differ in their last bits only.
func TestTrieAgreesWithMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	hashes := map[string]func(key int) uint64{
		"spread": func(key int) uint64 { return uint64(key) * 0x9e3779b97f4a7c15 },
		"equal":  func(int) uint64 { return 7 },
		"high":   func(key int) uint64 { return uint64(key%4) << 62 },
	}
	for name, hash := range hashes {
		var m trie[int]
		want := map[int]int{}
		var older trie[int]
		olderWant := map[int]int{}
		for step := range 3000 {
			key, value := rng.IntN(60), rng.Int()
			if rng.IntN(3) > 0 {
				m, want[key] = m.with(hash(key), fmt.Sprint(key), value), value
			} else {
				m = m.without(hash(key), fmt.Sprint(key))
				delete(want, key)
			}
			if step == 1500 {
				older = m
				for k, v := range want {
					olderWant[k] = v
				}
			}
		}
		check := func(m trie[int], want map[int]int) {
			for key := range 60 {
				got, ok := m.get(hash(key), fmt.Append(nil, key))
				if w, has := want[key]; ok != has || got != w {
					t.Fatalf("%s: key %d is %d %v, want %d %v", name, key, got, ok, w, has)
				}
			}
			if m.len != len(want) {
				t.Fatalf("%s: length %d, want %d", name, m.len, len(want))
			}
		}
		check(m, want)
		check(older, olderWant)
		for key := range want {
			m = m.without(hash(key), fmt.Sprint(key))
		}
		if m.root != nil || m.len != 0 {
			t.Fatalf("%s: something is left of an emptied trie", name)
		}
	}
}
