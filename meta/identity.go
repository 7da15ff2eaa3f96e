package meta

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

// identity is what a directory remembers of whose it is.
type identity struct {
	nodeID    int32
	clusterID string
}

const identityVersion = 1

func (id identity) append(dst []byte) []byte {
	dst = append(dst, identityVersion)
	dst = binary.BigEndian.AppendUint32(dst, uint32(id.nodeID))
	return append(dst, id.clusterID...)
}

func parseIdentity(src []byte) (identity, error) {
	switch {
	case len(src) < 6:
		return identity{}, fmt.Errorf("identity of %d bytes is damaged", len(src))
	case src[0] != identityVersion:
		return identity{}, fmt.Errorf("identity version %d is unknown (this program knows %d): a newer program wrote this directory",
			src[0], identityVersion)
	}
	return identity{nodeID: int32(binary.BigEndian.Uint32(src[1:])), clusterID: string(src[5:])}, nil
}

// check compares what the directory holds with what the options ask for.
func (id identity) check(o *Options) error {
	if id.nodeID != o.NodeID {
		return fmt.Errorf("%w: %s belongs to node %d of cluster %s, not to node %d; start with node.id=%d, or give node %d a directory of its own",
			ErrIdentity, o.Dir, id.nodeID, id.clusterID, o.NodeID, id.nodeID, o.NodeID)
	}
	if o.ClusterID != "" && id.clusterID != o.ClusterID {
		return fmt.Errorf("%w: %s belongs to cluster %s, not to cluster %s; give node %d of cluster %s a directory of its own",
			ErrIdentity, o.Dir, id.clusterID, o.ClusterID, o.NodeID, o.ClusterID)
	}
	return nil
}

// newClusterID returns a random (version 4) uuid in 22 characters of URL-safe base64. It never begins with
// a hyphen, which command lines would take for a flag.
func newClusterID() string {
	for {
		var b [16]byte
		if _, err := rand.Read(b[:]); err != nil {
			panic(err) // crypto/rand never fails
		}
		b[6] = b[6]&0x0f | 0x40
		b[8] = b[8]&0x3f | 0x80
		if s := base64.RawURLEncoding.EncodeToString(b[:]); s[0] != '-' {
			return s
		}
	}
}
