package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// CheckTopicConfigs checks the overrides of a topic, each alone and against each other. Faults are *Error,
// or Faults of more than one.
func CheckTopicConfigs(configs map[string]string) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		d := TopicDefinition(name)
		if d == nil {
			faults = append(faults, unknown(ScopeTopic, name))
		} else if _, err := d.parse(configs[name]); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) == 0 {
		faults = appendLagFault(faults, configs)
	}
	return join(faults)
}

func appendLagFault(faults []error, configs map[string]string) []error {
	lag := func(name string) int64 {
		d := TopicDefinition(name)
		if value, ok := configs[name]; ok {
			if v, err := d.parse(value); err == nil {
				return v.Number
			}
		}
		return d.defaultValue().Number
	}
	if least, most := lag("min.compaction.lag.ms"), lag("max.compaction.lag.ms"); least > most {
		faults = append(faults, &Error{Kind: KindConflict, Name: "min.compaction.lag.ms",
			Reason: fmt.Sprintf("%d is more than max.compaction.lag.ms, %d", least, most)})
	}
	return faults
}

// CheckBrokerConfigs checks dynamic configs of a broker: known, dynamic and legal.
func CheckBrokerConfigs(configs map[string]string) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		d := BrokerDefinition(name)
		switch {
		case d == nil:
			faults = append(faults, unknown(ScopeBroker, name))
		case !d.Dynamic:
			faults = append(faults, &Error{Kind: KindNotDynamic, Name: name})
		default:
			if _, err := d.parse(configs[name]); err != nil {
				faults = append(faults, err)
			}
		}
	}
	return join(faults)
}

// OpKind is what an Op does.
type OpKind uint8

// The kinds, as IncrementalAlterConfigs has them (KIP-339).
const (
	Set OpKind = iota + 1
	Delete
	Append
	Subtract
)

// Op is one change of one config.
type Op struct {
	Kind  OpKind
	Name  string
	Value string
	Null  bool // the value was null, which only Delete allows
}

// Alter returns the overrides after all ops, or the faults, in which case none counts. current is not
// changed. Append and Subtract begin with the table's default where nothing is set, as Kafka does. A name
// that stands twice is the caller's to refuse; here the last one counts.
func Alter(scope Scope, current map[string]string, ops []Op) (map[string]string, error) {
	next := maps.Clone(current)
	if next == nil {
		next = map[string]string{}
	}
	var faults []error
	for _, op := range ops {
		if err := alterOne(scope, next, op); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return nil, join(faults)
	}
	return next, CheckConfigs(scope, next)
}

// CheckConfigs checks the overrides of a resource, each alone and against each other.
func CheckConfigs(scope Scope, configs map[string]string) error {
	switch scope {
	case ScopeTopic:
		return CheckTopicConfigs(configs)
	case ScopeGroup:
		return CheckGroupConfigs(configs)
	}
	return CheckBrokerConfigs(configs)
}

func alterOne(scope Scope, next map[string]string, op Op) error {
	d := definition(scope, op.Name)
	switch {
	case op.Kind == Delete:
		// What an older program took and this one does not know must be deletable.
		if _, stored := next[op.Name]; d == nil && !stored {
			return unknown(scope, op.Name)
		}
		delete(next, op.Name)
		return nil
	case d == nil:
		return unknown(scope, op.Name)
	case op.Null:
		return Null(op.Name)
	case op.Kind == Set:
		next[op.Name] = op.Value
		return nil
	case op.Kind != Append && op.Kind != Subtract:
		return &Error{Kind: KindInvalid, Name: op.Name, Value: op.Value, Reason: fmt.Sprintf("operation %d is unknown", op.Kind)}
	case d.Type != List:
		return &Error{Kind: KindNotList, Name: op.Name}
	}
	value, stored := next[op.Name]
	if !stored {
		value = d.Default
	}
	elements := slices.Collect(splitList(value))
	for e := range splitList(op.Value) {
		at := slices.Index(elements, e)
		switch {
		case op.Kind == Append && at < 0:
			elements = append(elements, e)
		case op.Kind == Subtract && at >= 0:
			elements = slices.Delete(elements, at, at+1)
		}
	}
	next[op.Name] = strings.Join(elements, ",")
	return nil
}
