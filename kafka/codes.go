package kafka

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/engine"
	"millrace/engine/model"
	"millrace/kafka/fetchsession"
	"millrace/kafka/recordbatch"
	"millrace/meta/cluster"
	"millrace/meta/config"
)

// The error codes of the wire that are sent, with the names of the protocol guide. This file is the only
// place that turns errors of the layers below into them.
const (
	codeUnknownServerError                 int16 = -1
	codeNone                               int16 = 0
	codeOffsetOutOfRange                   int16 = 1
	codeCorruptMessage                     int16 = 2
	codeUnknownTopicOrPartition            int16 = 3
	codeLeaderNotAvailable                 int16 = 5
	codeNotLeaderOrFollower                int16 = 6
	codeRequestTimedOut                    int16 = 7
	codeMessageTooLarge                    int16 = 10
	codeCoordinatorLoadInProgress          int16 = 14
	codeCoordinatorNotAvailable            int16 = 15
	codeNotCoordinator                     int16 = 16
	codeInvalidTopic                       int16 = 17
	codeNotEnoughReplicas                  int16 = 19
	codeInvalidRequiredAcks                int16 = 21
	codeInconsistentGroupProtocol          int16 = 23
	codeInvalidTimestamp                   int16 = 32
	codeUnsupportedVersion                 int16 = 35
	codeTopicAlreadyExists                 int16 = 36
	codeInvalidPartitions                  int16 = 37
	codeInvalidReplicationFactor           int16 = 38
	codeInvalidReplicaAssignment           int16 = 39
	codeInvalidConfig                      int16 = 40
	codeNotController                      int16 = 41
	codeInvalidRequest                     int16 = 42
	codePolicyViolation                    int16 = 44
	codeOutOfOrderSequence                 int16 = 45
	codeInvalidProducerEpoch               int16 = 47
	codeTransactionalIDAuthorizationFailed int16 = 53
	codeKafkaStorageError                  int16 = 56
	codeLogDirNotFound                     int16 = 57
	codeUnknownProducerID                  int16 = 59
	codeFetchSessionIDNotFound             int16 = 70
	codeInvalidFetchSessionEpoch           int16 = 71
	codeTopicDeletionDisabled              int16 = 73
	codeFencedLeaderEpoch                  int16 = 74
	codeUnknownLeaderEpoch                 int16 = 75
	codeUnsupportedCompressionType         int16 = 76
	codeNoReassignmentInProgress           int16 = 85
	codeInvalidRecord                      int16 = 87
	codeUnknownTopicID                     int16 = 100
	codeInconsistentTopicID                int16 = 103
	codeFetchSessionTopicIDError           int16 = 106
	codeMismatchedEndpointType             int16 = 114
	codeUnsupportedEndpointType            int16 = 115
	codeRebootstrapRequired                int16 = 129
)

// codeOf returns the code of an error of the engine or the batch codec, or of a proposal that did not come
// back. An error it does not know is UNKNOWN_SERVER_ERROR.
func codeOf(err error) int16 {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
	}
	var wire *kerr.Error
	switch {
	case err == nil:
		return codeNone
	case errors.As(err, &wire): // of the coordinator of groups
		return wire.Code
	case is(engine.ErrFencedEpoch):
		return codeFencedLeaderEpoch
	case is(engine.ErrUnknownEpoch):
		return codeUnknownLeaderEpoch
	case is(engine.ErrOutOfOrderSequence):
		return codeOutOfOrderSequence
	case is(engine.ErrInvalidProducerEpoch):
		return codeInvalidProducerEpoch
	case is(engine.ErrUnknownProducer):
		return codeUnknownProducerID
	case is(engine.ErrOffsetOutOfRange):
		return codeOffsetOutOfRange
	case is(engine.ErrShardDeleted):
		return codeUnknownTopicOrPartition
	case is(engine.ErrBackpressure, recordbatch.ErrMemory, context.DeadlineExceeded):
		return codeRequestTimedOut // retriable
	case is(engine.ErrClosed):
		return codeNotLeaderOrFollower
	case is(engine.ErrCorrupt, model.ErrChecksum, model.ErrNotAppend, model.ErrForeign, model.ErrMalformed, model.ErrShort):
		return codeCorruptMessage
	case is(engine.ErrStorage):
		return codeKafkaStorageError
	case is(recordbatch.ErrCorrupt):
		return codeCorruptMessage
	case is(recordbatch.ErrTooLarge):
		return codeMessageTooLarge
	case is(recordbatch.ErrTimestamp):
		return codeInvalidTimestamp
	case is(recordbatch.ErrUnsupportedCodec):
		return codeUnsupportedCompressionType
	case is(recordbatch.ErrInvalidRecord):
		return codeInvalidRecord
	case is(recordbatch.ErrTransactional):
		return codeTransactionalIDAuthorizationFailed
	case is(recordbatch.ErrMemory):
		return codeRequestTimedOut
	case is(fetchsession.ErrNotFound):
		return codeFetchSessionIDNotFound
	case is(fetchsession.ErrInvalidEpoch):
		return codeInvalidFetchSessionEpoch
	case is(fetchsession.ErrTopicID):
		return codeFetchSessionTopicIDError
	case is(context.DeadlineExceeded):
		return codeRequestTimedOut
	case is(context.Canceled):
		return codeNotController // the broker stops
	default:
		return codeUnknownServerError
	}
}

// codeOfConfig returns the code of a refusal of configs that are altered: INVALID_REQUEST where the request
// cannot be meant, as in Kafka, INVALID_CONFIG where a value is at fault.
func codeOfConfig(err error) int16 {
	if e := (*config.Error)(nil); errors.As(err, &e) && (e.Kind == config.KindNotDynamic || e.Kind == config.KindNull) {
		return codeInvalidRequest
	}
	return codeInvalidConfig
}

// codeOfOutcome returns the code of what the cluster state answered.
func codeOfOutcome(o cluster.Code) int16 {
	switch o {
	case cluster.OK:
		return codeNone
	case cluster.ErrTopicExists:
		return codeTopicAlreadyExists
	case cluster.ErrUnknownTopic:
		return codeUnknownTopicOrPartition
	case cluster.ErrUnknownTopicID:
		return codeUnknownTopicID
	case cluster.ErrInvalidName, cluster.ErrNameCollision:
		return codeInvalidTopic
	case cluster.ErrInvalidPartitions:
		return codeInvalidPartitions
	case cluster.ErrTooManyPartitions:
		return codePolicyViolation
	case cluster.ErrInvalidReplicationFactor:
		return codeInvalidReplicationFactor
	case cluster.ErrInvalidAssignment:
		return codeInvalidReplicaAssignment
	case cluster.ErrInvalidRequest, cluster.ErrUnknownBroker:
		return codeInvalidRequest
	case cluster.ErrConflict:
		return codeRequestTimedOut // somebody else was faster again and again: retriable
	default:
		return codeUnknownServerError
	}
}

// codeOfGroup returns the code of an error of the coordinator, which are all Kafka's own.
func codeOfGroup(err error) (int16, *string) {
	if err == nil {
		return codeNone, nil
	}
	var e *kerr.Error
	if errors.As(err, &e) {
		return e.Code, textOrNull(e.Description)
	}
	return codeUnknownServerError, nil
}
