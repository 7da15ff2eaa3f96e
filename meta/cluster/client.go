package cluster

import (
	"context"
	"fmt"
)

// Proposer replicates commands; *meta.Node is one.
type Proposer interface {
	Propose(ctx context.Context, machine uint8, command []byte) (result []byte, err error)
}

// Client proposes commands and reads their results. Its methods block until the command is applied, and
// then Image shows it. An error means that it is not known whether the command was or will be applied;
// what the cluster state refuses comes back in the outcomes. It is safe for concurrent use.
type Client struct {
	proposer Proposer
	machine  uint8
	state    *Machine
}

// NewClient returns a client for the machine that is registered under the given number.
func NewClient(proposer Proposer, machine uint8, state *Machine) *Client {
	return &Client{proposer: proposer, machine: machine, state: state}
}

// Image returns the newest image of this node.
func (c *Client) Image() *Image { return c.state.Image() }

func (c *Client) propose(ctx context.Context, command Command) ([]byte, error) {
	encoded := command.AppendCommand(nil)
	result, err := c.proposer.Propose(ctx, c.machine, encoded)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", commandName(encoded[0]), err)
	}
	return result, nil
}

// RegisterBroker makes a broker known.
func (c *Client) RegisterBroker(ctx context.Context, command RegisterBroker) (RegisterBrokerResult, error) {
	o, epoch, err := c.number(ctx, command)
	return RegisterBrokerResult{Outcome: o, Epoch: epoch}, err
}

// CreateTopics makes topics.
func (c *Client) CreateTopics(ctx context.Context, command CreateTopics) ([]CreateTopicResult, error) {
	b, err := c.propose(ctx, command)
	if err != nil {
		return nil, err
	}
	return parseCreateTopicResults(b)
}

// DeleteTopics deletes topics.
func (c *Client) DeleteTopics(ctx context.Context, command DeleteTopics) ([]Outcome, error) {
	return c.outcomes(ctx, command)
}

// CreatePartitions adds partitions.
func (c *Client) CreatePartitions(ctx context.Context, command CreatePartitions) ([]Outcome, error) {
	return c.outcomes(ctx, command)
}

// AlterConfigs replaces configs.
func (c *Client) AlterConfigs(ctx context.Context, command AlterConfigs) ([]Outcome, error) {
	return c.outcomes(ctx, command)
}

// AllocateProducerIDs takes a block of producer ids; see ProducerIDs for single ones.
func (c *Client) AllocateProducerIDs(ctx context.Context, command AllocateProducerIDs) (AllocateProducerIDsResult, error) {
	o, first, err := c.number(ctx, command)
	return AllocateProducerIDsResult{Outcome: o, First: first}, err
}

// RaiseLeaderEpochs raises the epochs of all partitions that a node leads.
func (c *Client) RaiseLeaderEpochs(ctx context.Context, command RaiseLeaderEpochs) (RaiseLeaderEpochsResult, error) {
	o, partitions, err := c.number(ctx, command)
	return RaiseLeaderEpochsResult{Outcome: o, Partitions: partitions}, err
}

func (c *Client) outcomes(ctx context.Context, command Command) ([]Outcome, error) {
	b, err := c.propose(ctx, command)
	if err != nil {
		return nil, err
	}
	return parseOutcomes(b)
}

func (c *Client) number(ctx context.Context, command Command) (Outcome, int64, error) {
	b, err := c.propose(ctx, command)
	if err != nil {
		return Outcome{}, 0, err
	}
	return parseNumber(b)
}
