package hostspeed

import (
	"context"
	"io"
	"net"
	"time"
)

// pingBytes is a small request.
const pingBytes = 100

// loopback measures how long a small message takes to another thread and back through a socket.
func (r *Report) loopback(ctx context.Context, each time.Duration) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	echoed := make(chan error, 1)
	go func() { echoed <- echo(listener) }()
	trips, took, err := pings(ctx, listener.Addr().String(), each)
	listener.Close()
	if ended := <-echoed; err == nil && trips == 0 {
		err = ended
	}
	if err == nil && trips > 0 {
		r.Figures = append(r.Figures, Figure{What: "round trip of 100 B over the loopback", Value: round(took.Seconds() * 1e6 / float64(trips)), Unit: "us"})
	}
	return err
}

// echo sends back what one connection brings.
func echo(listener net.Listener) error {
	c, err := listener.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
	return err
}

// pings counts round trips.
func pings(ctx context.Context, address string, each time.Duration) (trips int, took time.Duration, err error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	message := make([]byte, pingBytes)
	began := time.Now()
	for time.Since(began) < each && ctx.Err() == nil {
		if _, err = c.Write(message); err == nil {
			_, err = io.ReadFull(c, message)
		}
		if err != nil {
			return trips, time.Since(began), err
		}
		trips++
	}
	return trips, time.Since(began), nil
}
