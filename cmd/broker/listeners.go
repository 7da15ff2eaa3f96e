package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"

	"millrace/kafka"
	"millrace/meta/cluster"
	"millrace/meta/config"
	"millrace/netio"
)

// checkListeners logs one warning where everybody on the network could write.
func checkListeners(settings *config.Broker, log *slog.Logger) error {
	for _, l := range settings.Listeners {
		if !config.IsLoopback(l.Host) {
			log.Warn("listening beyond this host without authentication: whoever reaches the port can read, write and delete everything",
				"listener", l.Name, "address", net.JoinHostPort(l.Host, strconv.Itoa(l.Port)))
			return nil
		}
	}
	return nil
}

// resolvePorts returns the address that clients are told for each listener. A port 0 is replaced by a free
// one here, before the broker registers and thus before the listener opens.
func resolvePorts(settings *config.Broker) ([]cluster.Endpoint, error) {
	var endpoints []cluster.Endpoint
	for i := range settings.Listeners {
		l := &settings.Listeners[i]
		e := cluster.Endpoint{Listener: l.Name, Host: l.AdvertisedHost, Port: int32(l.AdvertisedPort)}
		if e.Host == "" {
			e.Host = l.Host
		}
		if e.Port == 0 {
			port, err := freePort(l)
			if err != nil {
				return nil, fmt.Errorf("listener %s: %w", l.Name, err)
			}
			e.Port = int32(port)
		}
		endpoints = append(endpoints, e)
	}
	return endpoints, nil
}

func freePort(l *config.Listener) (int, error) {
	if l.Port != 0 {
		return l.Port, nil
	}
	probe, err := net.Listen("tcp", net.JoinHostPort(l.Host, "0"))
	if err != nil {
		return 0, err
	}
	defer probe.Close()
	return probe.Addr().(*net.TCPAddr).Port, nil
}

func netListeners(settings *config.Broker, endpoints []cluster.Endpoint) []netio.Listener {
	var listeners []netio.Listener
	for i, l := range settings.Listeners {
		port := l.Port
		if port == 0 && l.AdvertisedPort == 0 {
			port = int(endpoints[i].Port)
		}
		listeners = append(listeners, netio.Listener{Name: l.Name, Address: net.JoinHostPort(l.Host, strconv.Itoa(port))})
	}
	return listeners
}

func kafkaEndpoints(endpoints []cluster.Endpoint) []kafka.Endpoint {
	var list []kafka.Endpoint
	for _, e := range endpoints {
		list = append(list, kafka.Endpoint{Listener: e.Listener, Host: e.Host, Port: e.Port})
	}
	return list
}

// listenHint adds the commands to the remedy of a port in use.
func listenHint(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w (`ss -ltnp` shows which process it is, --listen HOST:PORT sets the port)", err)
	}
	return err
}
