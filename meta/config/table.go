package config

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// table is the one table, in the order of names.
type table struct {
	topic, broker, group                   []*Definition
	topicByName, brokerByName, groupByName map[string]*Definition
}

// theTable is made on first use and never changed.
var theTable = sync.OnceValue(func() *table {
	t := &table{topic: topicTable(), group: groupTable()}
	t.broker = brokerTable()
	for _, d := range t.topic {
		t.broker = append(t.broker, synonymDefinitions(d)...)
	}
	t.topicByName, t.brokerByName, t.groupByName = index(t.topic), index(t.broker), index(t.group)
	return t
})

func index(definitions []*Definition) map[string]*Definition {
	slices.SortFunc(definitions, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) })
	byName := make(map[string]*Definition, len(definitions))
	for _, d := range definitions {
		byName[d.Name] = d
	}
	return byName
}

// synonymDefinitions makes the broker settings that are the defaults of a topic's. The first has the
// topic's type and may be altered while the broker runs; the others are older forms in larger units.
func synonymDefinitions(topic *Definition) []*Definition {
	var list []*Definition
	for i, s := range topic.Synonyms {
		d := &Definition{
			Name: s.Name, Scope: ScopeBroker, Standing: topic.Standing, Importance: Medium,
			Type: topic.Type, Default: topic.Default, Check: topic.Check, Valid: topic.Valid, Reason: topic.Reason,
			Doc:   "Default of " + topic.Name + " for topics that do not set it. " + topic.Doc,
			short: "Of topics, " + topic.Name + ": " + firstSentence(topic.Doc),
		}
		last := i == len(topic.Synonyms)-1
		if i == 0 {
			d.Dynamic = true
			d.Null = !last || s.Null
		} else {
			d.Type = Int
			d.Doc = topic.Name + " in " + unitOf(s.Factor) + ", where " + topic.Synonyms[0].Name + " is not set. " + topic.Doc
			d.short = "Of topics, " + topic.Name + " in " + unitOf(s.Factor) + ": " + firstSentence(topic.Doc)
			d.Null = !last
			d.Check, d.Valid = olderForm(topic, s.Factor)
			if last {
				d.Default = strconv.FormatInt(topic.defaultValue().Number/s.Factor, 10)
			}
		}
		if d.Null {
			d.Default = ""
		}
		list = append(list, d)
	}
	return list
}

// olderForm checks a value in larger units as the topic's in milliseconds.
func olderForm(topic *Definition, factor int64) (func(Parsed) error, string) {
	check := func(v Parsed) error {
		v.Number = scale(v.Number, factor)
		if topic.Check != nil {
			return topic.Check(v)
		}
		return nil
	}
	return check, topic.Valid
}

// scale keeps negative numbers, which mean "forever".
func scale(n, factor int64) int64 {
	if n < 0 {
		return n
	}
	return n * factor
}

func unitOf(factor int64) string {
	if factor == 60_000 {
		return "minutes"
	}
	return "hours"
}

// TopicDefinitions returns the configs of topics in the order of their names. The slice must not be changed.
func TopicDefinitions() []*Definition { return theTable().topic }

// BrokerDefinitions returns the settings of brokers in the order of their names. The slice must not be
// changed.
func BrokerDefinitions() []*Definition { return theTable().broker }

// GroupDefinitions returns the configs of groups in the order of their names. The slice must not be changed.
func GroupDefinitions() []*Definition { return theTable().group }

// GroupDefinition returns a group's config, nil if there is none of that name.
func GroupDefinition(name string) *Definition { return theTable().groupByName[name] }

// definitions returns those of a scope.
func definitions(scope Scope) []*Definition {
	switch scope {
	case ScopeTopic:
		return TopicDefinitions()
	case ScopeGroup:
		return GroupDefinitions()
	}
	return BrokerDefinitions()
}

// definition returns the one of a name, nil if there is none.
func definition(scope Scope, name string) *Definition {
	switch scope {
	case ScopeTopic:
		return TopicDefinition(name)
	case ScopeGroup:
		return GroupDefinition(name)
	}
	return BrokerDefinition(name)
}

// TopicDefinition returns a topic's config, nil if there is none of that name.
func TopicDefinition(name string) *Definition { return theTable().topicByName[name] }

// BrokerDefinition returns a broker's setting, nil if there is none of that name. It may be that of one listener.
func BrokerDefinition(name string) *Definition {
	if d := theTable().brokerByName[name]; d != nil {
		return d
	}
	listener, base := ofListener(name)
	d := theTable().brokerByName[base]
	if listener == "" || d == nil || !d.PerListener {
		return nil
	}
	one := *d
	one.Name, one.Default, one.Null = name, "", true
	return &one
}

// ofListener splits listener.name.NAME.SETTING. The listener is empty where name is none.
func ofListener(name string) (listener, setting string) {
	rest, ok := strings.CutPrefix(name, "listener.name.")
	if !ok {
		return "", ""
	}
	listener, setting, _ = strings.Cut(rest, ".")
	return listener, setting
}

// brokerDefinitions returns the settings of brokers and those of single listeners among names, in the order of names.
func brokerDefinitions(names ...iter.Seq[string]) []*Definition {
	list := slices.Clone(BrokerDefinitions())
	seen := map[string]bool{}
	for _, some := range names {
		for name := range some {
			if listener, _ := ofListener(name); listener != "" && !seen[name] {
				if d := BrokerDefinition(name); d != nil {
					seen[name] = true
					list = append(list, d)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Nearest returns the valid name that is most like name, empty if none is.
func Nearest(scope Scope, name string) string {
	definitions := definitions(scope)
	name = strings.ToLower(name)
	if len(name) > 256 {
		return ""
	}
	best, bestDistance := "", max(2, len(name)/3)+1
	for _, d := range definitions {
		if distance := editDistance(name, d.Name); distance < bestDistance {
			best, bestDistance = d.Name, distance
		}
	}
	if best != "" {
		return best
	}
	// Somebody who left out the beginning or the end is not near by edits.
	for _, d := range definitions {
		if len(name) >= 5 && (strings.HasSuffix(d.Name, "."+name) || strings.HasPrefix(d.Name, name+".")) {
			return d.Name
		}
	}
	return ""
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
