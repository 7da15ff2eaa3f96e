package assignor

import "slices"

// Uniform is the uniform assignor. Where all members subscribe to the same topics, their counts differ by at
// most one and the number of partitions that move is the least that this allows. Where subscriptions differ,
// no partition could move from a member to another subscriber of its topic that has at least two fewer.
func Uniform(members []Member, topics []Topic) []Assignment {
	p := newPlan(members, topics, byID)
	p.keep()
	if p.alike() {
		p.trim()
		p.deal()
	} else {
		p.fill()
		p.level()
	}
	return p.result()
}

// alike says whether every topic that has a subscriber has all of them.
func (p *plan) alike() bool {
	for t := range p.topics {
		if n := len(p.topics[t].members); n != 0 && n != len(p.members) {
			return false
		}
	}
	return true
}

// quotas are the counts at the end of an assignment of alike members. The longer share goes to those who
// have more than the shorter one already, since each of them would lose one partition otherwise.
func (p *plan) quotas() []int32 {
	if len(p.members) == 0 {
		return nil
	}
	each, extra := int32(p.whole/len(p.members)), p.whole%len(p.members)
	quotas := make([]int32, len(p.members))
	for m := range quotas {
		quotas[m] = each
		if p.loads[m] > each && extra > 0 {
			quotas[m]++
			extra--
		}
	}
	for m := range quotas {
		if extra > 0 && quotas[m] == each {
			quotas[m]++
			extra--
		}
	}
	return quotas
}

// trim takes from members what is above their quota, evenly over topics as far as the last partitions of
// each go.
func (p *plan) trim() {
	quotas := p.quotas()
	for t := len(p.topics) - 1; t >= 0; t-- {
		topic := &p.topics[t]
		for partition := len(topic.owners) - 1; partition >= 0; partition-- {
			if m := topic.owners[partition]; m != nobody && p.loads[m] > quotas[m] {
				topic.owners[partition] = nobody
				p.loads[m]--
			}
		}
	}
}

// deal hands the free partitions to the members below their quota, one after the other in a ring, so that
// the partitions of one topic spread.
func (p *plan) deal() {
	quotas := p.quotas()
	var ring []int32
	for m := range quotas {
		if p.loads[m] < quotas[m] {
			ring = append(ring, int32(m))
		}
	}
	at := 0
	for t := range p.topics {
		topic := &p.topics[t]
		if len(topic.members) == 0 {
			continue
		}
		for partition, owner := range topic.owners {
			if owner != nobody {
				continue
			}
			if at >= len(ring) {
				at = 0
			}
			m := ring[at]
			topic.owners[partition] = m
			if p.loads[m]++; p.loads[m] == quotas[m] {
				ring = append(ring[:at], ring[at+1:]...)
			} else {
				at++
			}
		}
	}
}

// fill gives each free partition to the subscriber that has the fewest. Topics with few subscribers come
// first: the others have more ways to make up for them.
func (p *plan) fill() {
	order := make([]int, len(p.topics))
	for t := range order {
		order[t] = t
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(p.topics[a].members) - len(p.topics[b].members) })
	for _, t := range order {
		topic := &p.topics[t]
		if len(topic.members) == 0 {
			continue
		}
		for partition, owner := range topic.owners {
			if owner == nobody {
				m := p.least(topic)
				topic.owners[partition] = m
				p.loads[m]++
			}
		}
	}
}

// least is the subscriber of the topic with the fewest partitions; the first of several.
func (p *plan) least(topic *planTopic) int32 {
	best := topic.members[0]
	for _, m := range topic.members[1:] {
		if p.loads[m] < p.loads[best] {
			best = m
		}
	}
	return best
}

// level moves single partitions from the fullest holder of a topic to its emptiest subscriber until none of
// these moves makes two members more alike. Each move lowers the sum of the squares of the counts, so it
// ends.
func (p *plan) level() {
	for moved := true; moved; {
		moved = false
		for t := range p.topics {
			for p.moveOne(&p.topics[t]) {
				moved = true
			}
		}
	}
}

func (p *plan) moveOne(topic *planTopic) bool {
	if len(topic.members) < 2 {
		return false
	}
	from := -1
	for partition, m := range topic.owners {
		if m != nobody && (from < 0 || p.loads[m] >= p.loads[topic.owners[from]]) {
			from = partition
		}
	}
	if from < 0 {
		return false
	}
	giver, taker := topic.owners[from], p.least(topic)
	if p.loads[giver]-p.loads[taker] < 2 {
		return false
	}
	topic.owners[from] = taker
	p.loads[giver]--
	p.loads[taker]++
	return true
}
