package meta

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// An entry of the log holds one proposal: version, number of the machine, id of the proposal, command. The
// id lets the node that proposed find who waits.
const (
	payloadVersion     = 1
	payloadHeaderBytes = 10
)

func appendPayload(dst []byte, machine uint8, id uint64, command []byte) []byte {
	dst = append(dst, payloadVersion, machine)
	dst = binary.BigEndian.AppendUint64(dst, id)
	return append(dst, command...)
}

func parsePayload(src []byte) (machine uint8, id uint64, command []byte, err error) {
	if len(src) < payloadHeaderBytes {
		return 0, 0, nil, fmt.Errorf("entry of %d bytes is too short", len(src))
	}
	if src[0] != payloadVersion {
		return 0, 0, nil, fmt.Errorf("entry version %d is unknown (this program knows %d): a newer program wrote it", src[0], payloadVersion)
	}
	return src[1], binary.BigEndian.Uint64(src[2:]), src[payloadHeaderBytes:], nil
}

// snapshotVersion is the version of a snapshot: version, then for each machine its number, the length of
// its state u64, and the state.
const snapshotVersion = 1

func appendSnapshot(dst []byte, machines map[uint8]Machine) ([]byte, error) {
	dst = append(dst, snapshotVersion)
	for _, number := range slices.Sorted(maps.Keys(machines)) {
		dst = append(dst, number)
		at := len(dst)
		dst = binary.BigEndian.AppendUint64(dst, 0)
		var err error
		if dst, err = machines[number].Snapshot(dst); err != nil {
			return nil, fmt.Errorf("snapshot of machine %d: %w", number, err)
		}
		binary.BigEndian.PutUint64(dst[at:], uint64(len(dst)-at-8))
	}
	return dst, nil
}

// restoreSnapshot gives each machine its state. A machine that the snapshot does not know, since it was
// added later, keeps its empty state.
func restoreSnapshot(src []byte, machines map[uint8]Machine) error {
	if len(src) == 0 || src[0] != snapshotVersion {
		return fmt.Errorf("snapshot begins with %x, not with version %d: it is damaged or was written by a newer program",
			src[:min(1, len(src))], snapshotVersion)
	}
	for src = src[1:]; len(src) > 0; {
		if len(src) < 9 || binary.BigEndian.Uint64(src[1:]) > uint64(len(src)-9) {
			return fmt.Errorf("snapshot is damaged: it ends within the state of machine %d", src[0])
		}
		number, length := src[0], binary.BigEndian.Uint64(src[1:])
		m := machines[number]
		if m == nil {
			return fmt.Errorf("snapshot holds the state of machine %d, which this program does not have", number)
		}
		if err := m.Restore(src[9 : 9+length]); err != nil {
			return fmt.Errorf("restore machine %d: %w", number, err)
		}
		src = src[9+length:]
	}
	return nil
}
