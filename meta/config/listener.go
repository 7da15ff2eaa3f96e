package config

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// The protocols of the protocol's own guide, of which PLAINTEXT exists here.
const plaintext = "PLAINTEXT"

func splitList(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for element := range strings.SplitSeq(text, ",") {
			if element = strings.TrimSpace(element); element != "" && !yield(element) {
				return
			}
		}
	}
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

func parseAddress(text string) (string, error) {
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return "", err
	}
	return a.Unmap().String(), nil
}

func splitHostPort(text string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not HOST:PORT", text)
	}
	port, err = strconv.Atoi(number)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("port %q is not 0 to 65535", number)
	}
	return host, port, nil
}

type endpoint struct {
	name, host string
	port       int
}

// parseEndpoints reads NAME://HOST:PORT,...; names are upper case.
func parseEndpoints(list []string) ([]endpoint, error) {
	var endpoints []endpoint
	for _, text := range list {
		name, address, ok := strings.Cut(text, "://")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not NAME://HOST:PORT", text)
		}
		host, port, err := splitHostPort(address)
		if err != nil {
			return nil, err
		}
		e := endpoint{name: strings.ToUpper(name), host: host, port: port}
		for _, other := range endpoints {
			if other.name == e.name {
				return nil, fmt.Errorf("listener %s stands twice", e.name)
			}
		}
		endpoints = append(endpoints, e)
	}
	if len(endpoints) == 0 {
		return nil, errors.New("no listener is named")
	}
	return endpoints, nil
}

// isWildcard tells whether the host means every address, which no client can connect to.
func isWildcard(host string) bool {
	if host == "" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsUnspecified()
}

// IsLoopback tells whether a host is reached from this machine alone.
func IsLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// parseProtocols reads NAME:PROTOCOL,....
func parseProtocols(text string) (map[string]string, error) {
	protocols := map[string]string{}
	for element := range splitList(text) {
		name, protocol, ok := strings.Cut(element, ":")
		name, protocol = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(protocol))
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not NAME:PROTOCOL", element)
		}
		switch protocol {
		case plaintext, "SSL", "SASL_PLAINTEXT", "SASL_SSL":
		default:
			return nil, fmt.Errorf("protocol %q of %s is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", protocol, name)
		}
		if _, twice := protocols[name]; twice {
			return nil, fmt.Errorf("listener %s stands twice", name)
		}
		protocols[name] = protocol
	}
	return protocols, nil
}

// conflicts tells whether two listeners would bind the same port of the same address.
func (e endpoint) conflicts(other endpoint) bool {
	return e.port != 0 && e.port == other.port && (e.host == other.host || isWildcard(e.host) || isWildcard(other.host))
}

// listeners joins listeners, advertised.listeners and listener.security.protocol.map.
func (p *brokerParser) listeners() []Listener {
	bound := p.endpoints("listeners")
	protocols, err := parseProtocols(p.value("listener.security.protocol.map").Text)
	if err != nil {
		p.fault("listener.security.protocol.map", err.Error())
		return nil
	}
	advertised := map[string]endpoint{}
	for _, e := range p.advertised() {
		advertised[e.name] = e
	}
	var listeners []Listener
	for i, e := range bound {
		for _, other := range bound[:i] {
			if e.conflicts(other) {
				p.fault("listeners", fmt.Sprintf("listeners %s and %s both bind port %d", other.name, e.name, e.port))
			}
		}
		l := Listener{Name: e.name, Protocol: protocols[e.name], Host: e.host, Port: e.port}
		switch l.Protocol {
		case plaintext:
		case "":
			p.fault("listeners", fmt.Sprintf("listener %s has no protocol: add %s:PLAINTEXT to listener.security.protocol.map", e.name, e.name))
		default:
			p.fault("listeners", fmt.Sprintf("listener %s speaks %s, which does not exist here yet: PLAINTEXT is the only protocol", e.name, l.Protocol))
		}
		a, ok := advertised[e.name]
		delete(advertised, e.name)
		switch {
		case ok:
		case isWildcard(e.host):
			p.fault("listeners", fmt.Sprintf("listener %s binds every address (%s), which clients cannot be told to connect to: set advertised.listeners=%s://HOST:%d with a name or address that they reach (--advertise HOST:PORT)",
				e.name, net.JoinHostPort(e.host, strconv.Itoa(e.port)), e.name, e.port))
		default:
			a = e
			if _, set := p.settings["listeners"]; !set {
				a.host = "localhost"
			}
		}
		l.AdvertisedHost, l.AdvertisedPort = a.host, a.port
		listeners = append(listeners, l)
	}
	for name := range advertised {
		p.fault("advertised.listeners", fmt.Sprintf("listener %s is advertised but not in listeners", name))
	}
	return listeners
}

func (p *brokerParser) advertised() []endpoint {
	if p.value("advertised.listeners").Text == "" {
		return nil
	}
	endpoints := p.endpoints("advertised.listeners")
	for _, e := range endpoints {
		if isWildcard(e.host) {
			p.fault("advertised.listeners", fmt.Sprintf("%s://%s advertises every address, which clients cannot connect to: name one that they reach",
				e.name, net.JoinHostPort(e.host, strconv.Itoa(e.port))))
		}
	}
	return endpoints
}

func (p *brokerParser) endpoints(name string) []endpoint {
	v := p.value(name)
	endpoints, err := parseEndpoints(v.List)
	if err != nil && !p.bad[name] {
		p.fault(name, err.Error())
	}
	return endpoints
}
