package cluster

import (
	"slices"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// transaction builds the next image from one command. What it returns from byName and byID already
// contains its own changes.
type transaction struct {
	before      *Image
	next        Image
	delta       Delta
	byName      *iradix.Txn[*Topic]
	byID        *iradix.Txn[*Topic]
	byCollision *iradix.Txn[[]string]
}

func newTransaction(before *Image) *transaction {
	t := &transaction{before: before, next: *before}
	t.next.Version++
	t.byName, t.byID, t.byCollision = before.byName.Txn(), before.byID.Txn(), before.byCollision.Txn()
	return t
}

func (t *transaction) commit() Delta {
	t.next.byName, t.next.byID, t.next.byCollision = t.byName.Commit(), t.byID.Commit(), t.byCollision.Commit()
	t.delta.Image = &t.next
	return t.delta
}

// put stores a topic, new or changed.
func (t *transaction) put(topic *Topic) {
	old, _ := t.byName.Insert([]byte(topic.Name), topic)
	t.byID.Insert(topic.ID[:], topic)
	t.next.partitionCount += len(topic.Partitions)
	if old != nil {
		t.next.partitionCount -= len(old.Partitions)
	} else if key, ok := collisionKey(topic.Name); ok {
		names, _ := t.byCollision.Get([]byte(key))
		t.byCollision.Insert([]byte(key), append(slices.Clone(names), topic.Name))
	}
	t.delta.Topics = append(t.delta.Topics, TopicChange{Old: old, New: topic})
}

func (t *transaction) remove(topic *Topic) {
	t.byName.Delete([]byte(topic.Name))
	t.byID.Delete(topic.ID[:])
	t.next.partitionCount -= len(topic.Partitions)
	if key, ok := collisionKey(topic.Name); ok {
		names, _ := t.byCollision.Get([]byte(key))
		left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == topic.Name })
		if len(left) == 0 {
			t.byCollision.Delete([]byte(key))
		} else {
			t.byCollision.Insert([]byte(key), left)
		}
	}
	t.delta.Topics = append(t.delta.Topics, TopicChange{Old: topic})
}

func (t *transaction) topicByName(name string) *Topic {
	topic, _ := t.byName.Get([]byte(name))
	return topic
}
