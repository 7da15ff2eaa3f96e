package brokertest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Patience is how long a test waits for an answer that must come.
const Patience = 20 * time.Second

// frameBytesMax bounds what a reply may announce; larger is a fault of the broker under test.
const frameBytesMax = 256 << 20

// The byte-exact frames of the behaviour cases: length prefix included, correlation id 01020304, client id "t".
const (
	F1  = "000000110012006301020304000174000261023100"                           // ApiVersions v99
	F2  = "000000100012000301020304ffff000261023100"                             // ApiVersions v3, null client id
	F3  = "0000001300120003010203040001740004612062023100"                       // ApiVersions v3, name "a b"
	F4  = "0000001e0012000301020304000174020503616263630002610231012a047778797a" // ApiVersions v3, unknown tags
	F5  = "0000000f000300000102030400017400000000"                               // Metadata v0 []
	F6  = "0000000f000300010102030400017400000000"                               // Metadata v1 []
	F7  = "0000000f0003000101020304000174ffffffff"                               // Metadata v1 null
	F8  = "0000000f00030001010203040001747fffffff"                               // Metadata v1 array len 2^31-1
	F9  = "00000011000300090102030400017400ffffffff0f"                           // Metadata v9 compact length bomb
	F10 = "000000100003000901020304000174ffffffff0f"                             // Metadata v9 header tag-count bomb
	F11 = "0000000b270f000001020304000174"                                       // unknown api key 9999
	F12 = "0000000b0001006301020304000174"                                       // Fetch v99
)

// Correlation is the correlation id in F1 to F12.
const Correlation int32 = 0x01020304

// ErrClosed is returned by ReadFrame when the broker closed the connection between two replies.
var ErrClosed = errors.New("connection closed by the broker")

// Hex decodes s and fails the test on a typing error in it.
func Hex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatalf("hex %q: %v", s, err)
	}
	return b
}

// Conn is one connection that sends what it is told and checks nothing by itself. For one goroutine.
type Conn struct {
	NetConn  net.Conn
	ClientID *string // sent in request headers; nil is the null client id

	t           testing.TB
	correlation int32
}

// Dial connects to addr, failing the test if it cannot; the connection ends with the test.
func Dial(t testing.TB, addr string) *Conn {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, Patience)
	if err != nil {
		t.Fatalf("dial %s: %v", addr, err)
	}
	t.Cleanup(func() { nc.Close() })
	return &Conn{NetConn: nc, ClientID: kmsg.StringPtr("t"), t: t}
}

// SendFrame writes raw, which carries its own length prefix, right or wrong.
func (c *Conn) SendFrame(raw []byte) {
	c.t.Helper()
	if err := c.TrySendFrame(raw); err != nil {
		c.t.Fatalf("send %d bytes: %v", len(raw), err)
	}
}

// TrySendFrame is SendFrame for connections that the broker may have closed already.
func (c *Conn) TrySendFrame(raw []byte) error {
	c.NetConn.SetWriteDeadline(time.Now().Add(Patience))
	_, err := c.NetConn.Write(raw)
	return err
}

// ReadFrame returns the next reply without its length prefix. A clean end or a reset before its first byte is
// ErrClosed; no answer within timeout is os.ErrDeadlineExceeded.
func (c *Conn) ReadFrame(timeout time.Duration) ([]byte, error) {
	c.NetConn.SetReadDeadline(time.Now().Add(timeout))
	var prefix [4]byte
	n, err := io.ReadFull(c.NetConn, prefix[:])
	if n == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
		return nil, ErrClosed
	}
	if err != nil {
		return nil, fmt.Errorf("reply length after %d bytes: %w", n, err)
	}
	length := int32(binary.BigEndian.Uint32(prefix[:]))
	if length < 4 || length > frameBytesMax {
		return nil, fmt.Errorf("reply announces %d bytes", length)
	}
	body := make([]byte, length)
	if n, err := io.ReadFull(c.NetConn, body); err != nil {
		return nil, fmt.Errorf("reply ends after %d of %d bytes: %w", n, length, err)
	}
	return body, nil
}

// MustClose waits until the broker closes the connection and fails the test if a reply or nothing comes instead.
func (c *Conn) MustClose() {
	c.t.Helper()
	body, err := c.ReadFrame(Patience)
	switch {
	case errors.Is(err, ErrClosed):
	case err != nil:
		c.t.Fatalf("connection must be closed without a reply: %v", err)
	default:
		c.t.Fatalf("connection must be closed, got a reply of %d bytes: % x", len(body), body[:min(len(body), 64)])
	}
}

// Frame encodes req at version with its header and length prefix, and takes the next correlation id.
func (c *Conn) Frame(req kmsg.Request, version int16) (raw []byte, correlation int32) {
	c.correlation++
	return FrameOf(req, version, c.correlation, c.ClientID), c.correlation
}

// FrameOf encodes req at version: header v1 or v2 as the version asks for, then the body.
func FrameOf(req kmsg.Request, version int16, correlation int32, clientID *string) []byte {
	req.SetVersion(version)
	dst := make([]byte, 4, 256)
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.Key()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	if clientID == nil {
		dst = append(dst, 0xff, 0xff)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(*clientID)))
		dst = append(dst, *clientID...)
	}
	if req.IsFlexible() {
		dst = append(dst, 0)
	}
	return Sized(req.AppendTo(dst))
}

// Sized writes the length of what follows the first four bytes into them and returns frame.
func Sized(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// Send writes req at version and returns its correlation id.
func (c *Conn) Send(req kmsg.Request, version int16) int32 {
	c.t.Helper()
	raw, correlation := c.Frame(req, version)
	c.SendFrame(raw)
	return correlation
}

// Request sends req at version, waits for its reply and decodes it; anything else fails the test.
func (c *Conn) Request(req kmsg.Request, version int16) kmsg.Response {
	c.t.Helper()
	return c.Receive(req, c.Send(req, version))
}

// Receive reads the reply to req, which was sent with the given correlation id.
func (c *Conn) Receive(req kmsg.Request, correlation int32) kmsg.Response {
	c.t.Helper()
	resp, err := c.TryReceive(req, correlation, Patience)
	if err != nil {
		c.t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

// TryReceive is Receive for replies that may not come.
func (c *Conn) TryReceive(req kmsg.Request, correlation int32, timeout time.Duration) (kmsg.Response, error) {
	body, err := c.ReadFrame(timeout)
	if err != nil {
		return nil, err
	}
	return DecodeReply(req, correlation, body)
}

// DecodeReply decodes body as the reply to req and demands that it is exact: the correlation id, header
// v0 or v1 as the version asks for, no byte missing and none left over, non-nullable arrays not null. The last
// three by encoding the decoded value again.
func DecodeReply(req kmsg.Request, correlation int32, body []byte) (kmsg.Response, error) {
	if got := int32(binary.BigEndian.Uint32(body)); got != correlation {
		return nil, fmt.Errorf("reply carries correlation id %d, want %d", got, correlation)
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	rest := body[4:]
	if resp.IsFlexible() && req.Key() != 18 {
		if len(rest) == 0 || rest[0] != 0 {
			return nil, fmt.Errorf("reply header v1 has no empty tag section: % x", body[:min(len(body), 16)])
		}
		rest = rest[1:]
	}
	if err := resp.ReadFrom(rest); err != nil {
		return nil, fmt.Errorf("reply does not decode: %w: % x", err, rest[:min(len(rest), 128)])
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, rest) {
		at := 0
		for at < min(len(again), len(rest)) && again[at] == rest[at] {
			at++
		}
		return nil, fmt.Errorf("reply of %d bytes differs from its own encoding of %d bytes at %d: % x", len(rest), len(again), at, rest[at:min(len(rest), at+32)])
	}
	return resp, nil
}

// Alive fails the test unless the connection still answers an ApiVersions request.
func (c *Conn) Alive() {
	c.t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "brokertest", "1"
	resp := c.Request(req, 3).(*kmsg.ApiVersionsResponse)
	if resp.ErrorCode != 0 || len(resp.ApiKeys) == 0 {
		c.t.Fatalf("ApiVersions on a used connection: error %d, %d keys", resp.ErrorCode, len(resp.ApiKeys))
	}
}
