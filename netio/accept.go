package netio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"golang.org/x/sys/unix"
)

const (
	acceptBatchMax    = 64 // accepted by one event before connections have their turn
	acceptPause       = 100 * time.Millisecond
	keepAliveIdleSec  = 60
	keepAliveEverySec = 15
	keepAliveProbes   = 4
)

// acceptor is one listening socket. It lives on loop 0.
type acceptor struct {
	server  *Server
	name    string
	address string // with the real port
	fd      int
	resume  time.Time // when accepting goes on; zero: it does
	rate    bucket    // of this listener
}

// listen opens one listening socket. Accepted connections inherit its options.
func (s *Server) listen(n Listener) (*acceptor, error) {
	lc := net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, rc syscall.RawConn) error {
		var err error
		return errors.Join(rc.Control(func(fd uintptr) { err = setSocketOptions(int(fd)) }), err)
	}}
	lc.SetMultipathTCP(false) // no gain here, and it changes what the options below mean
	ln, err := lc.Listen(context.Background(), "tcp", n.Address)
	if err != nil {
		return nil, fmt.Errorf("listener %s on %s: %w%s", n.Name, n.Address, err, remedy(err))
	}
	defer ln.Close()
	a := &acceptor{server: s, name: n.Name, address: ln.Addr().String(), fd: -1}
	rc, err := ln.(*net.TCPListener).SyscallConn()
	if err == nil {
		var dupErr error
		err = rc.Control(func(fd uintptr) { a.fd, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) })
		err = errors.Join(err, dupErr)
	}
	if err != nil {
		return nil, fmt.Errorf("listener %s on %s: %w", n.Name, n.Address, err)
	}
	return a, nil
}

func setSocketOptions(fd int) error {
	return errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAliveIdleSec),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepAliveEverySec),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveProbes),
	)
}

func remedy(err error) string {
	var noName *net.DNSError
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return ": another process, perhaps another broker, holds the port; stop it or choose another port"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return ": this host does not have the address; use one of its own, or 0.0.0.0 for all"
	case errors.Is(err, unix.EACCES):
		return ": choose a port from 1024 up, or grant CAP_NET_BIND_SERVICE"
	case errors.As(err, &noName):
		return ": the host name has no address here; check it, or use the address itself"
	}
	return ""
}

// watch puts the socket on loop 0's poller, level-triggered.
func (a *acceptor) watch() error {
	return a.server.loops[0].poller.AddRead(&netpoll.PollAttachment{FD: a.fd}, false)
}

// accept takes connections that wait and gives each to the loop with the fewest.
func (a *acceptor) accept() {
	s := a.server
	for range acceptBatchMax {
		if a.held() {
			return
		}
		fd, sa, err := unix.Accept4(a.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
		case unix.EINTR, unix.ECONNABORTED:
			continue
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			a.pause(acceptPause)
			if s.metrics.AcceptPauses.Add(1) == 1 {
				s.options.Logger.Warn("accepting paused", slog.String("listener", a.name), slog.Any("error", err))
			}
			return
		default: // EAGAIN, or an error of the network that belongs to one connection
			return
		}
		a.rate.take()
		s.rate.take()
		c := &Conn{fd: fd, listener: a.name, address: addressOf(sa)}
		if !s.entered(c) {
			_ = unix.Close(fd)
			continue
		}
		c.loop = s.leastLoaded()
		if c.loop.index == 0 {
			c.loop.openConn(c)
		} else {
			c.loop.Post((*openTask)(c))
		}
	}
}

// pause stops accepting for a while: the socket stays readable, and the loop would spin on it. Connections meanwhile
// wait in the kernel's backlog.
func (a *acceptor) pause(wait time.Duration) {
	l := a.server.loops[0]
	_ = l.poller.Delete(a.fd)
	a.resume = time.Now().Add(wait)
	l.timer.armAccept(a.resume)
}

// retry goes on accepting once the pause is over.
func (a *acceptor) retry(now time.Time) {
	if a.resume.IsZero() {
		return
	}
	if now.Before(a.resume) {
		a.server.loops[0].timer.armAccept(a.resume)
		return
	}
	a.resume = time.Time{}
	if err := a.watch(); err != nil { // no kernel memory for it yet
		a.resume = now.Add(acceptPause)
		a.server.loops[0].timer.armAccept(a.resume)
	}
}

func (a *acceptor) close() {
	if a.fd >= 0 {
		_ = unix.Close(a.fd)
		a.fd = -1
	}
}

// openTask brings an accepted connection to its loop.
type openTask Conn

// RunOnLoop implements Task.
func (t *openTask) RunOnLoop(l *Loop) { l.openConn((*Conn)(t)) }

func addressOf(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
