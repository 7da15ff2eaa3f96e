package kafka

import (
	"log/slog"
	"sync"
	"time"

	"millrace/kafka/group"
	"millrace/kafka/group/consumer"
	"millrace/meta/cluster"
)

// regexResolver finds the topics that regular expressions of groups stand for, beside the coordinator: some take long,
// and all groups would wait for them.
type regexResolver struct {
	groups  *groups
	mu      sync.Mutex
	queue   []regexJob
	running sync.WaitGroup // the goroutine that works the queue off, where there is anything in it
}

type regexJob struct {
	group   string
	regexes []string
}

// regexTimeout bounds what one expression may take: the members of its group keep what it stood for before.
const regexTimeout = 500 * time.Millisecond

// resolve queues expressions of a group.
func (r *regexResolver) resolve(id string, regexes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, regexJob{id, regexes})
	if len(r.queue) == 1 {
		r.running.Go(r.work)
	}
}

// work is the goroutine. A job stays in the queue until it is done.
func (r *regexResolver) work() {
	for {
		r.mu.Lock()
		job := r.queue[0]
		r.mu.Unlock()
		r.match(job)
		r.mu.Lock()
		r.queue = r.queue[1:]
		left := len(r.queue)
		r.mu.Unlock()
		if left == 0 {
			return
		}
	}
}

func (r *regexResolver) match(job regexJob) {
	g := r.groups
	image := g.server.image()
	names := func(f func(string) bool) { image.Topics(func(t *cluster.Topic) bool { return f(t.Name) }) }
	found := make(map[string][]string, len(job.regexes))
	givenUp := 0
	for _, regex := range job.regexes {
		began := time.Now()
		over := func() bool { return time.Since(began) > regexTimeout || g.ended() }
		topics, ok := consumer.Match([]string{regex}, names, over)[regex]
		if ok {
			found[regex] = topics
			continue
		}
		givenUp++
		g.server.o.Logger.Warn("groups: a regular expression takes too long to match against the topics, and stands for what it did before",
			slog.String("group", job.group), slog.String("regex", regex[:min(len(regex), 200)]), slog.Int("topics", image.TopicCount()))
	}
	g.run(func(c *group.Coordinator, now group.Now) { c.Resolved(now, job.group, found, givenUp) })
}
