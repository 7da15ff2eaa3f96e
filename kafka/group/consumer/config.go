package consumer

import (
	"time"

	"millrace/engine/model"
	"millrace/kafka/group/assignor"
)

// Policy is group.consumer.migration.policy.
type Policy uint8

// The policies.
const (
	Bidirectional Policy = iota // the default
	Upgrade
	Downgrade
	Disabled
)

// ParsePolicy returns the policy of that name, in Kafka's spelling (lower case).
func ParsePolicy(name string) (Policy, bool) {
	for p, n := range [...]string{"bidirectional", "upgrade", "downgrade", "disabled"} {
		if n == name {
			return Policy(p), true
		}
	}
	return 0, false
}

// UpgradeEnabled says whether a classic group may become a consumer group.
func (p Policy) UpgradeEnabled() bool { return p == Bidirectional || p == Upgrade }

// DowngradeEnabled says whether a consumer group may become a classic group.
func (p Policy) DowngradeEnabled() bool { return p == Bidirectional || p == Downgrade }

// Config is what the settings of broker and group say about one group.
type Config struct {
	SessionTimeout    time.Duration // of members of the consumer protocol
	HeartbeatInterval time.Duration // told to them
	// AssignmentInterval is the least time between two computations of the target assignment; changes within
	// it are answered by one computation at the first heartbeat after it. Zero computes at once.
	AssignmentInterval time.Duration
	// RegexInterval is how long a resolved expression is used although no topic came or went.
	RegexInterval time.Duration
	// RegexIntervalMin is the least time between two resolutions because topics came or went.
	RegexIntervalMin time.Duration
	MembersMax       int      // group.consumer.max.size
	ClassicMax       int      // group.max.size: a larger group is not turned into a classic one
	Assignors        []string // that members may ask for; the first is the default
	Policy           Policy
}

// DefaultConfig returns the defaults of Apache Kafka 4.4.
func DefaultConfig() Config {
	return Config{
		SessionTimeout:     45 * time.Second,
		HeartbeatInterval:  5 * time.Second,
		AssignmentInterval: time.Second,
		RegexInterval:      10 * time.Minute,
		RegexIntervalMin:   10 * time.Second,
		MembersMax:         1<<31 - 1,
		ClassicMax:         1<<31 - 1,
		Assignors:          []string{assignor.NameUniform, assignor.NameRange},
	}
}

// What a member may cost. Requests above these are refused.
const (
	stringBytesMax   = 4096    // of a member, instance, rack or client id: INVALID_REQUEST
	topicNamesMax    = 20_000  // of one member: INVALID_REQUEST
	ownedMax         = 1 << 20 // partitions that a request may name: INVALID_REQUEST
	regexBytesMax    = 4096    // INVALID_REGULAR_EXPRESSION
	regexSizeMax     = 10_000  // of an expression with its repetitions written out: INVALID_REGULAR_EXPRESSION
	regexesMax       = 100     // different ones in a group: INVALID_REGULAR_EXPRESSION
	metadataBytesMax = 1 << 20 // of all protocols of a classic member: UNKNOWN_SERVER_ERROR, as Kafka's record too large
	// metadataRefresh is how long the partition counts of subscribed topics are trusted without news.
	metadataRefresh = time.Hour
)

// Topic is a topic that exists.
type Topic struct {
	ID         model.TopicID
	Name       string
	Partitions int32
}

// Topics is the view of the topics that exist, the same one for the length of a call of a Group's method.
// When topics came, went or grew, tell the Group by TopicsChanged.
type Topics interface {
	// Topic looks a topic up by name.
	Topic(name string) (Topic, bool)
	// TopicByID looks a topic up by id.
	TopicByID(id model.TopicID) (Topic, bool)
}

// Options is what a Group is made with.
type Options struct {
	Config Config
	Topics Topics
	// Resolve returns the topics that regular expressions stand for, as Match does. Those that it leaves out are
	// not known yet: they stand for what they did before until Resolved says otherwise.
	Resolve func(regexes []string) map[string][]string
	// NewID makes a member id for a member that has none. It must be unlike all others.
	NewID func() string
}

// Client says who sent a request.
type Client struct {
	ID   string // client id
	Host string // address, as DescribeGroups shows it
}
