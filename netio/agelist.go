package netio

import "time"

// ageList holds connections in the order in which something last happened to them, the oldest first. All
// entries of a list share one timeout, so that a sweep looks only at the front: the cost is per event and
// per expiry, not per connection.
type ageList struct{ first, last *ageNode }

// ageNode is a connection's place in one ageList.
type ageNode struct {
	next, previous *ageNode
	conn           *Conn // nil: not in the list
	at             time.Time
}

// touch moves n to the young end.
func (l *ageList) touch(n *ageNode, c *Conn, now time.Time) {
	n.at = now
	if n.conn != nil {
		if n == l.last {
			return
		}
		l.unlink(n)
	}
	n.conn = c
	n.previous, n.next = l.last, nil
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
}

// remove takes n out; one that is not in the list is left alone.
func (l *ageList) remove(n *ageNode) {
	if n.conn == nil {
		return
	}
	l.unlink(n)
	n.conn = nil
}

func (l *ageList) unlink(n *ageNode) {
	if n.previous == nil {
		l.first = n.next
	} else {
		n.previous.next = n.next
	}
	if n.next == nil {
		l.last = n.previous
	} else {
		n.next.previous = n.previous
	}
	n.next, n.previous = nil, nil
}

// expired returns the oldest connection if it is at least timeout old.
func (l *ageList) expired(now time.Time, timeout time.Duration) *Conn {
	if l.first == nil || now.Sub(l.first.at) < timeout {
		return nil
	}
	return l.first.conn
}
