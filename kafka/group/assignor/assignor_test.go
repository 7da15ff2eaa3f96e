package assignor

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/engine/model"
)

func id(n int) model.TopicID { return model.TopicID{14: byte(n >> 8), 15: byte(n)} }

// history is a group that changes at random between assignments.
type history struct {
	r       *rand.Rand
	members []Member
	topics  []Topic
	alike   bool
	next    int
}

func (h *history) subscribe() []model.TopicID {
	var list []model.TopicID
	for _, t := range h.topics {
		if h.alike || h.r.IntN(2) == 0 {
			list = append(list, t.ID)
		}
	}
	h.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func (h *history) step() {
	switch h.r.IntN(5) {
	case 0:
		h.topics = append(h.topics, Topic{ID: id(len(h.topics) + 1), Partitions: int32(h.r.IntN(12))})
		fallthrough
	case 1:
		for i := range h.members {
			h.members[i].Topics = h.subscribe()
		}
	case 2:
		if n := len(h.topics); n > 0 {
			h.topics[h.r.IntN(n)].Partitions += int32(h.r.IntN(5))
		}
	case 3:
		if n := len(h.members); n > 0 {
			i := h.r.IntN(n)
			h.members = slices.Delete(h.members, i, i+1)
		}
	case 4:
		h.next++
		m := Member{ID: fmt.Sprint("m", h.r.IntN(1000), "-", h.next), Topics: h.subscribe()}
		if h.r.IntN(3) == 0 {
			m.InstanceID = fmt.Sprint("i", h.next)
		}
		h.members = append(h.members, m)
	}
}

func loads(list []Assignment) []int {
	out := make([]int, len(list))
	for i, a := range list {
		for _, p := range a {
			out[i] += len(p)
		}
	}
	return out
}

// checkWhole checks that each partition of a subscribed topic has one owner, a subscriber.
func checkWhole(t *testing.T, h *history, got []Assignment) {
	t.Helper()
	owners := map[model.TopicID]map[int32]bool{}
	for i, a := range got {
		for topic, partitions := range a {
			if !slices.Contains(h.members[i].Topics, topic) {
				t.Fatalf("%s got %v without a subscription", h.members[i].ID, topic)
			}
			if len(partitions) == 0 || !slices.IsSorted(partitions) {
				t.Fatalf("partitions %v", partitions)
			}
			for _, p := range partitions {
				if owners[topic] == nil {
					owners[topic] = map[int32]bool{}
				}
				if owners[topic][p] {
					t.Fatalf("%v-%d has two owners", topic, p)
				}
				owners[topic][p] = true
			}
		}
	}
	for _, topic := range h.topics {
		subscribed := slices.ContainsFunc(h.members, func(m Member) bool { return slices.Contains(m.Topics, topic.ID) })
		if want := int(topic.Partitions); subscribed && len(owners[topic.ID]) != want {
			t.Fatalf("%v has %d owned partitions of %d", topic.ID, len(owners[topic.ID]), want)
		}
	}
}

func checkUniform(t *testing.T, h *history, got []Assignment) {
	t.Helper()
	n := loads(got)
	for i := range h.members {
		for topic := range got[i] {
			for j := range h.members {
				if n[i]-n[j] > 1 && slices.Contains(h.members[j].Topics, topic) {
					t.Fatalf("%s has %d, %s could have some of its %v and has %d", h.members[i].ID, n[i], h.members[j].ID, topic, n[j])
				}
			}
		}
	}
	if !h.alike || len(h.members) == 0 {
		return
	}
	// The least movement: of what a member had and may keep, it keeps as much as a balanced share allows.
	whole := 0
	for _, k := range n {
		whole += k
	}
	each, extra := whole/len(n), whole%len(n)
	kept, best, longer := 0, 0, 0
	for i := range h.members {
		had := 0
		for topic, partitions := range h.members[i].Previous {
			at := slices.IndexFunc(h.topics, func(x Topic) bool { return x.ID == topic })
			if !slices.Contains(h.members[i].Topics, topic) {
				continue
			}
			for _, p := range partitions {
				if p < h.topics[at].Partitions {
					had++
				}
				if slices.Contains(got[i][topic], p) {
					kept++
				}
			}
		}
		if had > each {
			longer++
		}
		best += min(had, each)
	}
	if best += min(longer, extra); kept != best {
		t.Fatalf("kept %d partitions where they were, %d could have stayed", kept, best)
	}
}

func TestUniformHistories(t *testing.T) {
	for seed := range uint64(400) {
		h := &history{r: rand.New(rand.NewPCG(seed, 1)), alike: seed%2 == 0}
		t.Logf("seed %d", seed)
		for range 40 {
			h.step()
			got := Uniform(h.members, h.topics)
			checkWhole(t, h, got)
			checkUniform(t, h, got)
			for i := range h.members {
				h.members[i].Previous = got[i]
			}
			if again := Uniform(h.members, h.topics); !reflect.DeepEqual(again, got) {
				t.Fatalf("seed %d: a second assignment of the same group moves partitions", seed)
			}
		}
	}
}

func TestRangeHistories(t *testing.T) {
	for seed := range uint64(200) {
		h := &history{r: rand.New(rand.NewPCG(seed, 2)), alike: seed%2 == 0}
		t.Logf("seed %d", seed)
		for range 40 {
			h.step()
			got := Range(h.members, h.topics)
			checkWhole(t, h, got)
			for i := range got {
				for topic, p := range got[i] {
					if int(p[len(p)-1]-p[0])+1 != len(p) {
						t.Fatalf("%v of %v is no range", p, topic)
					}
				}
			}
			h.r.Shuffle(len(h.members), func(i, j int) {
				h.members[i], h.members[j] = h.members[j], h.members[i]
				got[i], got[j] = got[j], got[i]
			})
			if again := Range(h.members, h.topics); !reflect.DeepEqual(again, got) {
				t.Fatal("the order of the members matters")
			}
		}
	}
}

func TestRangeCoPartitions(t *testing.T) {
	topics := []Topic{{id(1), 3}, {id(2), 3}}
	both := []model.TopicID{id(1), id(2)}
	f := func(members []Member, want ...[]int32) {
		t.Helper()
		for i, a := range Range(members, topics) {
			if !slices.Equal(a[id(1)], want[i]) || !slices.Equal(a[id(2)], want[i]) {
				t.Errorf("member %s has %v, want %v of both topics", members[i].ID, a, want[i])
			}
		}
	}
	f([]Member{{ID: "b", Topics: both}, {ID: "a", Topics: both}}, []int32{2}, []int32{0, 1})
	f([]Member{{ID: "a", Topics: both}, {ID: "z", InstanceID: "i", Topics: both}}, []int32{2}, []int32{0, 1})
	f([]Member{{ID: "a", InstanceID: "2", Topics: both}, {ID: "b", InstanceID: "1", Topics: both}}, []int32{2}, []int32{0, 1})
}

func TestByName(t *testing.T) {
	for _, name := range []string{NameUniform, NameRange} {
		if f, ok := ByName(name); !ok || len(f(nil, nil)) != 0 {
			t.Errorf("%s: %v", name, ok)
		}
	}
	if _, ok := ByName("sticky"); ok {
		t.Error("an assignor that does not exist was found")
	}
}

// group makes members of one topic each 100 partitions, the second half of the members without the last one
// where not alike.
func group(members, partitions int, alike bool) ([]Member, []Topic) {
	var topics []Topic
	for n := 0; n < partitions; n += 100 {
		topics = append(topics, Topic{id(n/100 + 1), 100})
	}
	list := make([]Member, members)
	for i := range list {
		list[i].ID = fmt.Sprintf("m%05d", i)
		for n, topic := range topics {
			if alike || i%2 == 0 || n != len(topics)-1 {
				list[i].Topics = append(list[i].Topics, topic.ID)
			}
		}
	}
	return list, topics
}

func TestSpeed(t *testing.T) {
	f := func(members, partitions int, alike bool, most time.Duration) {
		t.Helper()
		list, topics := group(members, partitions, alike)
		start := time.Now()
		got := Uniform(list, topics)
		for i := range list {
			list[i].Previous = got[i]
		}
		Uniform(list[1:], topics)
		took := time.Since(start)
		t.Logf("%d members, %d partitions, alike %v: two assignments in %v", members, partitions, alike, took)
		if took > most {
			t.Errorf("%d members with %d partitions took %v", members, partitions, took)
		}
	}
	f(100, 1000, true, 2*time.Second)
	f(100, 1000, false, 2*time.Second)
	f(1000, 10000, true, 5*time.Second)
	f(1000, 10000, false, 5*time.Second)
}

func BenchmarkUniform(b *testing.B) {
	for _, alike := range []bool{true, false} {
		for _, size := range [][2]int{{100, 1000}, {1000, 10000}} {
			b.Run(fmt.Sprintf("alike=%v/members=%d/partitions=%d", alike, size[0], size[1]), func(b *testing.B) {
				list, topics := group(size[0], size[1], alike)
				for i, a := range Uniform(list, topics) {
					list[i].Previous = a
				}
				for b.Loop() {
					Uniform(list[1:], topics)
				}
			})
		}
	}
}
