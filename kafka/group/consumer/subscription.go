package consumer

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/engine/model"
)

// sortedNames copies the names, sorts them and drops duplicates.
func sortedNames(names []string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = strings.Clone(name)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// keep returns a string that outlives the bytes of a request; the old one where it is the same.
func keep(old, now string) string {
	if old == now {
		return old
	}
	return strings.Clone(now)
}

// topicsOf are the existing topics that a member is subscribed to.
func (g *Group) topicsOf(m *Member) map[model.TopicID]struct{} {
	ids := make(map[model.TopicID]struct{}, len(m.Topics))
	add := func(names []string) {
		for _, name := range names {
			if t, ok := g.opts.Topics.Topic(name); ok {
				ids[t.ID] = struct{}{}
			}
		}
	}
	add(m.Topics)
	if m.Regex != "" {
		add(g.state.regexes[m.Regex])
	}
	return ids
}

// hashTopics is a number that changes when what members are subscribed to comes, goes or grows. It is 0 for
// no existing topic.
func (g *Group) hashTopics() uint64 {
	sum := uint64(0)
	var buf []byte
	for name := range g.state.names {
		if t, ok := g.opts.Topics.Topic(name); ok {
			h := fnv.New64a()
			buf = append(append(buf[:0], t.ID[:]...), t.Name...)
			h.Write(binary.BigEndian.AppendUint32(buf, uint32(t.Partitions)))
			sum += h.Sum64() // in no order
		}
	}
	return sum
}

// firstEpoch is the epoch that a group counts from: the first member of a new group gets the next one.
const firstEpoch = 1

// refreshEpoch raises the group epoch where bump says so or the subscribed topics changed.
func (g *Group) refreshEpoch(bump bool, now time.Time) {
	if !bump && now.Before(g.refreshAt) {
		return
	}
	hash := g.hashTopics()
	if bump || hash != g.state.metadataHash {
		g.emit(GroupEpoch{Epoch: max(g.state.epoch, firstEpoch) + 1, MetadataHash: hash})
	}
	g.refreshAt = now.Add(metadataRefresh)
}

// checkRegex refuses an expression that a member asks for.
func (g *Group) checkRegex(regex string) error {
	if regex == "" {
		return nil
	}
	if _, known := g.state.regexes[regex]; known {
		return nil
	}
	if len(regex) > regexBytesMax {
		return refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex has %d bytes, %d are allowed.", len(regex), regexBytesMax)
	}
	if len(g.state.regexes) >= regexesMax {
		return refuse(kerr.InvalidRegularExpression, "The group has %d different regular expressions, which is the limit.", regexesMax)
	}
	parsed, err := syntax.Parse(regex, syntax.Perl)
	if err != nil {
		return refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex `%s` is not a valid regular expression: %v.", regex, err)
	}
	if written(parsed) > regexSizeMax {
		return refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex `%s` is too large with its repetitions written out.", regex)
	}
	return nil
}

// written is about how large an expression is when its repetitions are written out, which is what it costs to compile
// and to match it.
func written(r *syntax.Regexp) int {
	n := 1 + len(r.Rune)/2
	for _, sub := range r.Sub {
		n += written(sub)
	}
	if r.Op == syntax.OpRepeat {
		n *= max(r.Min, r.Max, 1)
	}
	return min(n, 1<<30)
}

// Match returns, for each expression, the names that it matches as a whole, in order. It leaves out what it has not
// got through when over, which it asks between names, says so; an expression that does not compile, which only a
// stored one may be, matches none. It may take long and be called anywhere.
func Match(regexes []string, names func(func(name string) bool), over func() bool) map[string][]string {
	found := make(map[string][]string, len(regexes))
	for _, regex := range regexes {
		list := []string{}
		done := true
		if e, err := regexp.Compile(`\A(?:` + regex + `)\z`); err == nil {
			names(func(name string) bool {
				if done = !over(); done && e.MatchString(name) {
					list = append(list, name)
				}
				return done
			})
		}
		if done {
			slices.Sort(list)
			found[regex] = list
		}
	}
	return found
}

// updateRegexes resolves the expressions that are new and drops those without a subscriber, where a member
// changed its own, and resolves all again when topics came or went, though not too often, or after a long
// time. It says whether what some expression stands for changed.
func (g *Group) updateRegexes(memberChanged bool, now time.Time) (changed bool) {
	age := now.Sub(g.regexAt)
	all := g.topicsMoved && age >= g.opts.Config.RegexIntervalMin || age >= g.opts.Config.RegexInterval || age < 0
	all = all && (memberChanged || len(g.state.regexes) > 0)
	if !memberChanged && !all {
		return false
	}
	used := g.usedRegexes()
	g.dropRegexes(used)
	var todo []string
	for regex := range used {
		if _, known := g.state.regexes[regex]; all || !known {
			todo = append(todo, regex)
		}
	}
	if all {
		g.regexAt, g.topicsMoved = now, false
	}
	if len(todo) == 0 {
		return false
	}
	slices.Sort(todo)
	found := g.opts.Resolve(todo)
	for _, regex := range todo {
		topics, resolved := found[regex]
		old, known := g.state.regexes[regex]
		if !known && !resolved {
			topics = []string{}
		} else if known && (!resolved || slices.Equal(old, topics)) {
			continue
		}
		g.emit(PutRegex{Regex: regex, Topics: topics})
		changed = true
	}
	return changed
}

// Resolved tells what regular expressions stand for that Options.Resolve did not know. The members hear of it with
// their next heartbeats.
func (g *Group) Resolved(now time.Time, found map[string][]string) Outcome {
	changed := false
	for _, regex := range slices.Sorted(maps.Keys(found)) {
		if old, known := g.state.regexes[regex]; known && !slices.Equal(old, found[regex]) {
			g.emit(PutRegex{Regex: regex, Topics: found[regex]})
			changed = true
		}
	}
	if changed {
		g.refreshEpoch(true, now)
	}
	return g.finish()
}

func (g *Group) dropRegexes(used map[string]bool) {
	for _, regex := range slices.Sorted(maps.Keys(g.state.regexes)) {
		if !used[regex] {
			g.emit(DeleteRegex{Regex: regex})
		}
	}
}

func (g *Group) usedRegexes() map[string]bool {
	used := map[string]bool{}
	for _, m := range g.state.members {
		if m.Regex != "" {
			used[m.Regex] = true
		}
	}
	return used
}
