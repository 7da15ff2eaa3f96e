package consumer

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"millrace/engine/model"
)

// topicMap is a view of topics for tests.
type topicMap struct {
	byName map[string]Topic
	last   int
}

func newTopics(spec ...any) *topicMap {
	t := &topicMap{byName: map[string]Topic{}}
	for i := 0; i < len(spec); i += 2 {
		t.create(spec[i].(string), spec[i+1].(int))
	}
	return t
}

func (t *topicMap) create(name string, partitions int) {
	t.last++
	t.byName[name] = Topic{ID: model.TopicID{0: 0xaa, 15: byte(t.last), 14: byte(t.last >> 8)}, Name: name, Partitions: int32(partitions)}
}

func (t *topicMap) grow(name string, by int) {
	topic := t.byName[name]
	topic.Partitions += int32(by)
	t.byName[name] = topic
}

func (t *topicMap) Topic(name string) (Topic, bool) { x, ok := t.byName[name]; return x, ok }

func (t *topicMap) TopicByID(id model.TopicID) (Topic, bool) {
	for _, x := range t.byName {
		if x.ID == id {
			return x, true
		}
	}
	return Topic{}, false
}

// resolve knows all expressions at once.
func (t *topicMap) resolve(regexes []string) map[string][]string {
	return Match(regexes, t.names, func() bool { return false })
}

func (t *topicMap) names(f func(string) bool) {
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		if !f(name) {
			return
		}
	}
}

// world is a group with a clock, topics, and a State beside it that only hears of the changes, by their
// encoded form.
type world struct {
	t      testing.TB
	g      *Group
	stored *State
	topics *topicMap
	now    time.Time
	ids    int
	config Config
}

func newWorld(t testing.TB, topics *topicMap, edit ...func(*Config)) *world {
	w := &world{t: t, topics: topics, now: time.UnixMilli(1_000_000), stored: &State{}, config: DefaultConfig()}
	w.config.AssignmentInterval = 0
	for _, f := range edit {
		f(&w.config)
	}
	w.g = New("g", w.options(), nil, w.now)
	return w
}

func (w *world) options() Options {
	return Options{Config: w.config, Topics: w.topics, Resolve: w.topics.resolve, NewID: func() string {
		w.ids++
		return fmt.Sprintf("made-%d", w.ids)
	}}
}

// settle replays an outcome and compares.
func (w *world) settle(o Outcome) {
	if len(o.Changes) == 0 {
		return
	}
	var bytes []byte
	for _, c := range o.Changes {
		bytes = c.Append(bytes)
	}
	for len(bytes) > 0 {
		c, n, err := ParseChange(bytes)
		if err != nil {
			w.t.Fatalf("parse: %v", err)
		}
		bytes = bytes[n:]
		if err := w.stored.Apply(c); err != nil {
			w.t.Fatalf("replay %T: %v", c, err)
		}
	}
	w.compare()
}

func (w *world) compare() {
	w.t.Helper()
	if !w.stored.Equal(w.g.state) {
		w.t.Fatalf("the replayed group differs from the one in memory:\n%+v\n%+v", w.stored, w.g.state)
	}
}

// reload makes the group anew from what is stored.
func (w *world) reload() { w.g = New("g", w.options(), w.stored, w.now) }
