package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientFlags are those of every command that talks to a broker.
type clientFlags struct {
	brokers []string
	timeout time.Duration
}

func (f *clientFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.brokers, "broker", "b", []string{"127.0.0.1:9092"}, "HOST:PORT of a broker of any make that speaks the Kafka protocol; repeatable")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long a broker may take to be reached and to answer")
}

// client makes a client and asks for the versions once, so that a broker that is not there is said at once
// and not after minutes of retries.
func (f *clientFlags) client(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	seeds := make([]string, len(f.brokers))
	for i, b := range f.brokers {
		host, port, err := net.SplitHostPort(b)
		if err != nil {
			host, port = strings.Trim(b, "[]"), "9092"
		}
		if host == "" || port == "" {
			return nil, usagef("--broker %q is not HOST:PORT", b)
		}
		seeds[i] = net.JoinHostPort(host, port)
	}
	if f.timeout <= 0 {
		return nil, usagef("--timeout %v must be above zero", f.timeout)
	}
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.ClientID("millrace-cli"), kgo.DialTimeout(f.timeout), kgo.RetryTimeout(f.timeout),
	}, opts...)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, usagef("%w", err)
	}
	ping, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if err := client.Ping(ping); err != nil {
		client.Close()
		return nil, f.unreachable(err)
	}
	return client, nil
}

// admin runs do with an admin client and explains its error.
func (f *clientFlags) admin(parent context.Context, do func(ctx context.Context, adm *kadm.Client) error) error {
	ctx, stop := interruptible(parent)
	defer stop()
	client, err := f.client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	adm.SetTimeoutMillis(int32(f.timeout.Milliseconds()))
	return do(ctx, adm)
}

func (f *clientFlags) unreachable(err error) error {
	brokers := strings.Join(f.brokers, ", ")
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	hint := "is the broker running there (`millrace serve`), and is the address right (--broker HOST:PORT)?"
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		hint = "what listens there closed the connection: it may ask for TLS or SASL, or speak another protocol"
	}
	return fmt.Errorf("no broker answers at %s: %w; %s", brokers, err, hint)
}

// explain names the topic in an error of a broker and, where there is one, the way out.
func explain(topic string, err error) error {
	hint := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		hint = fmt.Sprintf("there is no such topic or partition; see `millrace topic list`, or make it with `millrace topic create %s`", topic)
	case errors.Is(err, kerr.TopicAlreadyExists):
		hint = fmt.Sprintf("it is there already; `millrace topic describe %s` shows it, and --if-not-exists makes this no error", topic)
	case errors.Is(err, kerr.InvalidTopicException):
		hint = "a name has 1 to 249 of the characters a-z A-Z 0-9 . _ - and is neither . nor .."
	case errors.Is(err, kerr.InvalidReplicationFactor):
		hint = "there are not as many brokers; leave --replication-factor out to take the broker's default"
	case errors.Is(err, kerr.InvalidPartitions):
		hint = "the number of partitions must be at least 1, and can only grow"
	case errors.Is(err, kerr.InvalidConfig):
		hint = "see docs/configuration.md for the names and values of configs"
	case errors.Is(err, kerr.KafkaStorageError):
		hint = "the broker's disk is full or has failed, or it has closed a damaged partition; its log says which, and `millrace doctor` and `millrace inspect` on its host check both"
	case errors.Is(err, kerr.MessageTooLarge):
		hint = fmt.Sprintf("a record or batch is larger than --batch-bytes or than the broker takes; make batches smaller with --batch-bytes, or allow larger ones with `millrace topic alter %s --config max.message.bytes=N`", topic)
	case errors.Is(err, errConnectionLost):
		hint = "the broker may have stopped, or it takes no request as large as this (its socket.request.max.bytes); a smaller --batch-bytes makes requests smaller"
	case errors.Is(err, kerr.NotLeaderForPartition):
		hint = "the leader has just changed; try again"
	case errors.Is(err, kerr.TopicDeletionDisabled):
		hint = "the broker runs with delete.topic.enable=false"
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries):
		hint = "the broker did not acknowledge in time; --timeout allows it longer"
	}
	if hint == "" {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	return &hinted{text: fmt.Sprintf("topic %s: %s; %s", topic, brief(err), hint), err: err}
}

// hinted is an error whose text holds a hint instead of the protocol's description.
type hinted struct {
	text string
	err  error
}

func (h *hinted) Error() string { return h.text }
func (h *hinted) Unwrap() error { return h.err }

// brief leaves the protocol's description of a code out of an error's text.
func brief(err error) string {
	text := err.Error()
	var protocol *kerr.Error
	if errors.As(err, &protocol) {
		text = strings.Replace(text, protocol.Error(), protocol.Message, 1)
	}
	return text
}

// topicID writes an id as Kafka's tools do.
func topicID(id kadm.TopicID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// withMessage adds the broker's own words to its error code.
func withMessage(err error, message string) error {
	if err == nil || message == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, message)
}

// isRetriable tells that the client goes on by itself after the error.
func isRetriable(err error) bool {
	var protocol *kerr.Error
	if errors.As(err, &protocol) {
		return protocol.Retriable && !errors.Is(err, kerr.UnknownTopicOrPartition)
	}
	var lost *kgo.ErrDataLoss
	return errors.As(err, &lost)
}
