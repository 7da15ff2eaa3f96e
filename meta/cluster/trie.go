package cluster

import (
	"math/bits"
	"slices"
)

// trie is a persistent hash map from byte strings: a change copies the nodes on one path and leaves the
// old map as it was. A look-up among 10,000 names touches three or four nodes and does not allocate; the
// radix tree, which keeps names in order, takes several times as long. The caller computes the hashes. The
// zero value is an empty map.
type trie[V any] struct {
	root *trieNode[V]
	len  int
}

// trieNode has a slot for each of 32 values of five bits of the hash that occurs below it.
type trieNode[V any] struct {
	bitmap uint32
	slots  []trieSlot[V]
}

// trieSlot holds a node or a leaf.
type trieSlot[V any] struct {
	node *trieNode[V]
	leaf *trieLeaf[V]
}

type trieLeaf[V any] struct {
	hash  uint64
	key   string
	value V
	next  *trieLeaf[V] // another key with the very same hash
}

const trieBits = 5

// find returns the bit of the hash at this depth, its slot's place, and whether that is taken.
func (n *trieNode[V]) find(hash uint64, shift uint) (bit uint32, at int, taken bool) {
	bit = 1 << (hash >> shift & (1<<trieBits - 1))
	return bit, bits.OnesCount32(n.bitmap & (bit - 1)), n.bitmap&bit != 0
}

func (t trie[V]) get(hash uint64, key []byte) (value V, ok bool) {
	n := t.root
	for shift := uint(0); n != nil; shift += trieBits {
		_, at, taken := n.find(hash, shift)
		if !taken {
			break
		}
		s := &n.slots[at]
		for leaf := s.leaf; leaf != nil; leaf = leaf.next {
			if leaf.hash == hash && leaf.key == string(key) {
				return leaf.value, true
			}
		}
		n = s.node
	}
	return value, false
}

// with returns a map that also has the key, or has its new value.
func (t trie[V]) with(hash uint64, key string, value V) trie[V] {
	if _, ok := t.get(hash, []byte(key)); !ok {
		t.len++
	}
	t.root = t.root.with(&trieLeaf[V]{hash: hash, key: key, value: value}, 0)
	return t
}

func (n *trieNode[V]) with(leaf *trieLeaf[V], shift uint) *trieNode[V] {
	if n == nil {
		n = &trieNode[V]{}
	}
	bit, at, taken := n.find(leaf.hash, shift)
	if !taken {
		slots := make([]trieSlot[V], 0, len(n.slots)+1)
		slots = append(append(append(slots, n.slots[:at]...), trieSlot[V]{leaf: leaf}), n.slots[at:]...)
		return &trieNode[V]{bitmap: n.bitmap | bit, slots: slots}
	}
	changed := &trieNode[V]{bitmap: n.bitmap, slots: slices.Clone(n.slots)}
	switch s := &changed.slots[at]; {
	case s.leaf == nil:
		s.node = s.node.with(leaf, shift+trieBits)
	case s.leaf.hash == leaf.hash:
		leaf.next = s.leaf.without(leaf.key)
		s.leaf = leaf
	default: // two hashes that are alike so far: both move down
		old := s.leaf
		s.leaf = nil
		s.node = (*trieNode[V])(nil).with(old, shift+trieBits).with(leaf, shift+trieBits)
	}
	return changed
}

// without returns a map that does not have the key.
func (t trie[V]) without(hash uint64, key string) trie[V] {
	if _, ok := t.get(hash, []byte(key)); !ok {
		return t
	}
	t.len--
	t.root = t.root.without(hash, key, 0)
	return t
}

// without returns nil for a node that becomes empty. The key must be there.
func (n *trieNode[V]) without(hash uint64, key string, shift uint) *trieNode[V] {
	bit, at, _ := n.find(hash, shift)
	s := n.slots[at]
	if s.node != nil {
		s.node = s.node.without(hash, key, shift+trieBits)
	} else {
		s.leaf = s.leaf.without(key)
	}
	if s.node != nil || s.leaf != nil {
		changed := &trieNode[V]{bitmap: n.bitmap, slots: slices.Clone(n.slots)}
		changed.slots[at] = s
		return changed
	}
	if len(n.slots) == 1 {
		return nil
	}
	return &trieNode[V]{bitmap: n.bitmap &^ bit, slots: slices.Delete(slices.Clone(n.slots), at, at+1)}
}

// without copies the chain but for one key; chains are one leaf long nearly always.
func (l *trieLeaf[V]) without(key string) *trieLeaf[V] {
	switch {
	case l == nil:
		return nil
	case l.key == key:
		return l.next
	}
	changed := *l
	changed.next = l.next.without(key)
	return &changed
}
