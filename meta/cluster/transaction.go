package cluster

import (
	"hash/maphash"
	"slices"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"millrace/engine/model"
)

// transaction builds the next image from one command. Its look-ups see its own changes.
type transaction struct {
	before  *Image
	next    Image
	delta   Delta
	ordered *iradix.Txn[*Topic]
}

func newTransaction(before *Image) *transaction {
	t := &transaction{before: before, next: *before, ordered: before.ordered.Txn()}
	t.next.Version++
	return t
}

// commit returns what changed. The image is memory of its own: within the transaction it would keep the one before, and
// that the one before it.
func (t *transaction) commit() Delta {
	next := t.next
	next.ordered = t.ordered.Commit()
	t.delta.Image = &next
	return t.delta
}

// put stores a topic, new or changed.
func (t *transaction) put(topic *Topic) {
	old := t.topicByName(topic.Name)
	n := &t.next
	n.byName = n.byName.with(maphash.String(n.seed, topic.Name), topic.Name, topic)
	n.byID = n.byID.with(maphash.Bytes(n.seed, topic.ID[:]), string(topic.ID[:]), topic)
	t.ordered.Insert([]byte(topic.Name), topic)
	n.partitionCount += len(topic.Partitions)
	if old != nil {
		n.partitionCount -= len(old.Partitions)
	} else if key, ok := collisionKey(topic.Name); ok {
		t.setCollisions(key, append(slices.Clone(n.collisions(key)), topic.Name))
	}
	t.delta.Topics = append(t.delta.Topics, TopicChange{Old: old, New: topic})
}

func (t *transaction) remove(topic *Topic) {
	n := &t.next
	n.byName = n.byName.without(maphash.String(n.seed, topic.Name), topic.Name)
	n.byID = n.byID.without(maphash.Bytes(n.seed, topic.ID[:]), string(topic.ID[:]))
	t.ordered.Delete([]byte(topic.Name))
	n.partitionCount -= len(topic.Partitions)
	if key, ok := collisionKey(topic.Name); ok {
		own := func(name string) bool { return name == topic.Name }
		t.setCollisions(key, slices.DeleteFunc(slices.Clone(n.collisions(key)), own))
	}
	t.delta.Topics = append(t.delta.Topics, TopicChange{Old: topic})
}

func (t *transaction) setCollisions(key string, names []string) {
	n, hash := &t.next, maphash.String(t.next.seed, key)
	if len(names) == 0 {
		n.byCollision = n.byCollision.without(hash, key)
	} else {
		n.byCollision = n.byCollision.with(hash, key, names)
	}
}

// collisions returns the names that are key with dots as underscores.
func (i *Image) collisions(key string) []string {
	names, _ := i.byCollision.get(maphash.String(i.seed, key), []byte(key))
	return names
}

func (t *transaction) topicByName(name string) *Topic { return t.next.TopicByName([]byte(name)) }

func (t *transaction) topicByID(id model.TopicID) *Topic { return t.next.TopicByID(id) }
