package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	adminTimeout  = 2 * time.Minute // 10,000 partitions take some brokers a minute
	reachTimeout  = 10 * time.Second
	pingTimeout   = 3 * time.Second // of a broker that answered before
	deleteTimeout = 20 * time.Second
	pollEvery     = 20 * time.Millisecond
)

// admin makes and deletes topics. It is used from one goroutine.
type admin struct {
	client *kgo.Client
	adm    *kadm.Client
	prefix string // of topics of this run
	made   []string
	count  int
}

// topic is one that this run made.
type topic struct {
	name       string
	partitions int
	leaders    []string // HOST:PORT, by partition
}

// connect reaches the broker, or says within seconds that it does not answer.
func connect(ctx context.Context, broker, prefix string, options ...kgo.Opt) (*admin, error) {
	options = append([]kgo.Opt{kgo.SeedBrokers(broker), kgo.ClientID("millrace-bench"), kgo.DialTimeout(reachTimeout), kgo.RetryTimeout(reachTimeout)}, options...)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	ping, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if err := client.Ping(ping); err != nil {
		client.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("no broker answers at %s: %w", broker, err)
	}
	adm := kadm.NewClient(client)
	adm.SetTimeoutMillis(int32(adminTimeout.Milliseconds()))
	return &admin{client: client, adm: adm, prefix: prefix}, nil
}

// make creates a topic and returns when all its partitions can be used: some brokers name a leader before it
// knows that it is one.
func (a *admin) make(ctx context.Context, partitions int, configs map[string]string) (*topic, error) {
	a.count++
	t := &topic{name: a.prefix + strconv.Itoa(a.count), partitions: partitions}
	values := map[string]*string{}
	for k, v := range configs {
		values[k] = &v
	}
	// It is deleted also when the answer to its creation is lost.
	a.made = append(a.made, t.name)
	created, err := a.adm.CreateTopic(ctx, int32(partitions), -1, values, t.name)
	if err != nil {
		if created.ErrMessage != "" {
			err = fmt.Errorf("%w (%s)", err, created.ErrMessage)
		}
		return nil, fmt.Errorf("make topic %s of %d partitions: %w", t.name, partitions, err)
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for {
		missing, err := a.leaders(ctx, t)
		if err == nil && missing == 0 {
			if _, err = a.ends(ctx, t); err == nil {
				return t, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("topic %s: %d of %d partitions have no leader, or it does not answer yet (%v): %w", t.name, missing, partitions, err, context.Cause(ctx))
		case <-time.After(pollEvery):
		}
	}
}

// leaders fills in who leads the partitions and returns how many have nobody.
func (a *admin) leaders(ctx context.Context, t *topic) (missing int, err error) {
	m, err := a.adm.Metadata(ctx, t.name)
	if err != nil {
		return t.partitions, err
	}
	addresses := map[int32]string{}
	for _, b := range m.Brokers {
		addresses[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	d := m.Topics[t.name]
	if d.Err != nil {
		return t.partitions, d.Err
	}
	t.leaders = make([]string, t.partitions)
	for i := range t.leaders {
		p, ok := d.Partitions[int32(i)]
		if t.leaders[i] = addresses[p.Leader]; !ok || p.Err != nil || t.leaders[i] == "" {
			missing++
		}
	}
	return missing, nil
}

// ends returns the end offset of each partition.
func (a *admin) ends(ctx context.Context, t *topic) ([]int64, error) {
	listed, err := a.adm.ListEndOffsets(ctx, t.name)
	if err != nil {
		return nil, fmt.Errorf("end offsets of %s: %w", t.name, err)
	}
	ends := make([]int64, t.partitions)
	for i := range ends {
		o, ok := listed.Lookup(t.name, int32(i))
		if !ok {
			return nil, fmt.Errorf("end offset of %s partition %d: the broker did not answer for it", t.name, i)
		}
		if o.Err != nil {
			return nil, fmt.Errorf("end offset of %s partition %d: %w", t.name, i, o.Err)
		}
		ends[i] = o.Offset
	}
	return ends, nil
}

// producerID asks for the identity of an idempotent producer.
func (a *admin) producerID(ctx context.Context) (id int64, epoch int16, err error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = -1, -1
	res, err := req.RequestWith(ctx, a.client)
	if err == nil {
		err = kerr.ErrorForCode(res.ErrorCode)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("ask for a producer id: %w", err)
	}
	return res.ProducerID, res.ProducerEpoch, nil
}

// clean deletes all topics that were made, whatever becomes of ctx, and says which are left.
func (a *admin) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	var left []string
	var errs []error
	if len(a.made) == 0 {
		return nil
	}
	ping, stop := context.WithTimeout(ctx, pingTimeout)
	defer stop()
	if err := a.client.Ping(ping); err != nil {
		return fmt.Errorf("topics %v were not deleted: the broker does not answer", a.made)
	}
	deleted, err := a.adm.DeleteTopics(ctx, a.made...)
	for _, name := range a.made {
		d, ok := deleted[name]
		failed := err
		if failed == nil && ok {
			failed = d.Err
		}
		if failed != nil && !errors.Is(failed, kerr.UnknownTopicOrPartition) {
			left = append(left, name)
			errs = append(errs, failed)
		}
	}
	a.made = left
	if len(left) > 0 {
		return fmt.Errorf("topics %v were not deleted: %w", left, errs[0])
	}
	return nil
}

// close ends the client.
func (a *admin) close() { a.client.Close() }

// lane is what one connection has to do with a topic: partitions of one leader.
type lane struct {
	address    string
	partitions []int32
	sole       bool // no other connection produces to these
}

// lanes divides the partitions over connections. With fewer partitions than connections several share one.
func (t *topic) lanes(connections int) ([]lane, error) {
	var addresses []string
	led := map[string][]int32{}
	for p, address := range t.leaders {
		if led[address] == nil {
			addresses = append(addresses, address)
		}
		led[address] = append(led[address], int32(p))
	}
	if connections < len(addresses) {
		return nil, fmt.Errorf("the partitions are led by %d brokers, which %s cannot reach: raise --connections", len(addresses), plural(connections, "connection"))
	}
	all := make([]lane, connections)
	for i := range all {
		all[i].address = addresses[i%len(addresses)]
	}
	for n, address := range addresses {
		var own []*lane
		for i := n; i < connections; i += len(addresses) {
			own = append(own, &all[i])
		}
		partitions := led[address]
		for i := range max(len(partitions), len(own)) {
			l := own[i%len(own)]
			l.partitions = append(l.partitions, partitions[i%len(partitions)])
			l.sole = len(partitions) >= len(own)
		}
	}
	return all, nil
}
