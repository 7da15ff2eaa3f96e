package config

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Group holds the values that take effect for one group of the consumer protocol.
type Group struct {
	ConsumerSession    time.Duration // consumer.session.timeout.ms
	ConsumerHeartbeat  time.Duration // consumer.heartbeat.interval.ms
	ConsumerAssignment time.Duration // consumer.assignment.interval.ms
}

// groupTable lists the configs of groups: those of Apache Kafka 4.4 for the consumer protocol.
func groupTable() []*Definition {
	list := []*Definition{
		numbered("consumer.session.timeout.ms", Int, "45000", 1, "group.consumer.session.timeout.ms",
			"How long a member of the group may be silent before it is taken out."),
		numbered("consumer.heartbeat.interval.ms", Int, "5000", 1, "group.consumer.heartbeat.interval.ms",
			"How often members of the group are told to send heartbeats."),
		numbered("consumer.assignment.interval.ms", Int, "1000", 0, "group.consumer.assignment.interval.ms",
			"The least time between two computations of the group's assignment; what changes within it is taken together."),
	}
	for _, d := range list {
		d.Standing = Effective
	}
	list = append(list, definitionsOf(NoMeaning, "Whether a thread of its own divides the partitions of the group. "+
		"Accepted, and changes nothing: the coordinator does that itself.", "", `consumer.assignor.offload.enable boolean "true"`)...)
	for _, d := range list {
		d.Scope, d.Importance = ScopeGroup, Medium
	}
	return list
}

func brokerConsumerGroups() []*Definition {
	policy, policyValid := oneOf("bidirectional", "upgrade", "downgrade", "disabled")
	return []*Definition{
		numbered("group.consumer.session.timeout.ms", Int, "45000", 1, "",
			"How long a member of a group of the consumer protocol may be silent before it is taken out."),
		numbered("group.consumer.min.session.timeout.ms", Int, "45000", 1, "", "The least that consumer.session.timeout.ms of a group may be."),
		numbered("group.consumer.max.session.timeout.ms", Int, "60000", 1, "", "The most that consumer.session.timeout.ms of a group may be."),
		numbered("group.consumer.heartbeat.interval.ms", Int, "5000", 1, "",
			"How often members of groups of the consumer protocol are told to send heartbeats."),
		numbered("group.consumer.min.heartbeat.interval.ms", Int, "5000", 1, "", "The least that consumer.heartbeat.interval.ms of a group may be."),
		numbered("group.consumer.max.heartbeat.interval.ms", Int, "15000", 1, "", "The most that consumer.heartbeat.interval.ms of a group may be."),
		dynamic(numbered("group.consumer.assignment.interval.ms", Int, "1000", 0, "",
			"The least time between two computations of a group's assignment; what changes within it is taken together.")),
		numbered("group.consumer.min.assignment.interval.ms", Int, "0", 0, "", "The least that consumer.assignment.interval.ms of a group may be."),
		numbered("group.consumer.max.assignment.interval.ms", Int, "15000", 0, "", "The most that consumer.assignment.interval.ms of a group may be."),
		numbered("group.consumer.max.size", Int, "2147483647", 1, "", "How many members a group of the consumer protocol may have."),
		checked(&Definition{Name: "group.consumer.assignors", Type: List, Default: "uniform,range",
			Doc: "What divides partitions among the members of a group of the consumer protocol, where a member may choose; the first is for those that do not."},
			assignors, "[uniform, range]"),
		checked(&Definition{Name: "group.consumer.migration.policy", Type: String, Default: "bidirectional",
			Doc: "Whether a group with members may change its protocol: from classic to consumer (upgrade), back (downgrade), both or neither. Empty groups always may."},
			policy, policyValid),
	}
}

func assignors(v Parsed) error {
	if len(v.List) == 0 {
		return fmt.Errorf("value must name uniform, range or both")
	}
	for i, name := range v.List {
		if name != "uniform" && name != "range" {
			return fmt.Errorf("there is no assignor %q here, only uniform and range", name)
		}
		if slices.Contains(v.List[:i], name) {
			return fmt.Errorf("%s stands twice", name)
		}
	}
	return nil
}

// ConsumerBounds are what configs of groups must be within, both ends included.
type ConsumerBounds struct {
	SessionMin, SessionMax       time.Duration
	HeartbeatMin, HeartbeatMax   time.Duration
	AssignmentMin, AssignmentMax time.Duration
}

// Clamp brings what an older bound allowed within the bounds.
func (b ConsumerBounds) Clamp(g Group) Group {
	within := func(v, low, high time.Duration) time.Duration { return min(max(v, low), high) }
	return Group{
		ConsumerSession:    within(g.ConsumerSession, b.SessionMin, b.SessionMax),
		ConsumerHeartbeat:  within(g.ConsumerHeartbeat, b.HeartbeatMin, b.HeartbeatMax),
		ConsumerAssignment: within(g.ConsumerAssignment, b.AssignmentMin, b.AssignmentMax),
	}
}

// Check reports which of a group's own configs are out of bounds, and a heartbeat interval that no session lasts;
// effective is what they come to with the defaults.
func (b ConsumerBounds) Check(configs map[string]string, effective Group) error {
	var faults []error
	check := func(name string, low, high time.Duration) {
		value, ok := configs[name]
		if !ok {
			return
		}
		v, err := GroupDefinition(name).parse(value)
		if err != nil {
			return // CheckGroupConfigs says so
		}
		if d := milliseconds(v.Number); d < low || d > high {
			faults = append(faults, &Error{Kind: KindInvalid, Name: name, Value: value,
				Reason: fmt.Sprintf("must be in the range %d to %d inclusive, as the broker's settings say", low.Milliseconds(), high.Milliseconds())})
		}
	}
	check("consumer.session.timeout.ms", b.SessionMin, b.SessionMax)
	check("consumer.heartbeat.interval.ms", b.HeartbeatMin, b.HeartbeatMax)
	check("consumer.assignment.interval.ms", b.AssignmentMin, b.AssignmentMax)
	if len(faults) == 0 && effective.ConsumerHeartbeat >= effective.ConsumerSession {
		faults = append(faults, &Error{Kind: KindConflict, Name: "consumer.heartbeat.interval.ms", Reason: fmt.Sprintf(
			"%d must be below consumer.session.timeout.ms, %d, or members would be taken out between two heartbeats: set both",
			effective.ConsumerHeartbeat.Milliseconds(), effective.ConsumerSession.Milliseconds())})
	}
	return join(faults)
}

// CheckGroupConfigs checks the overrides of a group, each alone.
func CheckGroupConfigs(configs map[string]string) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		d := GroupDefinition(name)
		if d == nil {
			faults = append(faults, unknown(ScopeGroup, name))
		} else if _, err := d.parse(configs[name]); err != nil {
			faults = append(faults, err)
		}
	}
	return join(faults)
}

// Group returns the values that count for a group with these overrides.
func (r *Resolver) Group(overrides map[string]string) Group {
	value := func(name string) time.Duration {
		d := GroupDefinition(name)
		if all := r.search(d, overrides); len(all) > 0 {
			return milliseconds(all[0].parsed.Number)
		}
		return milliseconds(d.defaultValue().Number)
	}
	return Group{
		ConsumerSession:    value("consumer.session.timeout.ms"),
		ConsumerHeartbeat:  value("consumer.heartbeat.interval.ms"),
		ConsumerAssignment: value("consumer.assignment.interval.ms"),
	}
}

// DescribeGroup returns every config of a group with these overrides, in the order of names.
func (r *Resolver) DescribeGroup(overrides map[string]string) []Entry {
	return r.describe(GroupDefinitions(), overrides)
}

// consumerBounds reads the settings of groups of the consumer protocol that bound others, and compares them.
func (p *brokerParser) consumerBounds() ConsumerBounds {
	duration := func(name string) time.Duration { return milliseconds(p.value("group.consumer." + name).Number) }
	b := ConsumerBounds{
		SessionMin: duration("min.session.timeout.ms"), SessionMax: duration("max.session.timeout.ms"),
		HeartbeatMin: duration("min.heartbeat.interval.ms"), HeartbeatMax: duration("max.heartbeat.interval.ms"),
		AssignmentMin: duration("min.assignment.interval.ms"), AssignmentMax: duration("max.assignment.interval.ms"),
	}
	within := func(name string, low, high time.Duration) {
		if low > high {
			p.fault("group.consumer.min."+name, "is above group.consumer.max."+name)
		} else if v := duration(name); v < low || v > high {
			p.fault("group.consumer."+name, "must be from group.consumer.min."+name+" to group.consumer.max."+name)
		}
	}
	within("session.timeout.ms", b.SessionMin, b.SessionMax)
	within("heartbeat.interval.ms", b.HeartbeatMin, b.HeartbeatMax)
	within("assignment.interval.ms", b.AssignmentMin, b.AssignmentMax)
	if duration("heartbeat.interval.ms") >= duration("session.timeout.ms") {
		p.fault("group.consumer.heartbeat.interval.ms", "must be below group.consumer.session.timeout.ms, or members would be taken out between two heartbeats")
	}
	return b
}
