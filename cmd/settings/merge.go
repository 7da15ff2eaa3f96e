package settings

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"millrace/meta/config"
)

// Flags are what the command line says. Empty fields were not given.
type Flags struct {
	ConfigFile string
	Set        []string // KEY=VALUE
	DataDir    string   // short for log.dirs
	Listen     string   // HOST:PORT, short for listeners
	Advertise  string   // HOST:PORT, short for advertised.listeners
	NodeID     string   // short for node.id
}

// Load reads all sources and parses what they say. It reports every fault at once.
func Load(flags Flags, environ []string) (*config.Broker, error) {
	merged, err := Merge(flags, environ)
	if err != nil {
		return nil, err
	}
	return config.ParseBroker(merged)
}

// Merge reads all sources and returns each setting with the value and origin that count: command line over
// environment over file. Whether a name exists and a value fits is not checked here.
func Merge(flags Flags, environ []string) (config.Settings, error) {
	var faults []error
	merged := config.Settings{}
	if flags.ConfigFile != "" {
		text, err := os.ReadFile(flags.ConfigFile)
		if err != nil {
			return nil, fmt.Errorf("settings file: %w", err)
		}
		fromFile, err := parseFile(flags.ConfigFile, string(text))
		faults = append(faults, err)
		maps.Copy(merged, fromFile)
	}
	fromEnviron, err := parseEnviron(environ)
	faults = append(faults, err)
	maps.Copy(merged, fromEnviron)
	fromFlags, err := flags.parse()
	faults = append(faults, err)
	maps.Copy(merged, fromFlags)
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return merged, nil
}

func (f *Flags) parse() (config.Settings, error) {
	var faults []error
	found := config.Settings{}
	put := func(name, value, origin string) {
		if before, ok := found[name]; ok {
			faults = append(faults, fmt.Errorf("%s is given twice, by %s and by %s", name, before.Origin, origin))
			return
		}
		found[name] = config.Setting{Value: value, Origin: origin}
	}
	short := func(name, value, flag string) {
		if value != "" {
			put(name, value, flag)
		}
	}
	short("log.dirs", f.DataDir, "--data-dir")
	short("node.id", f.NodeID, "--node-id")
	if f.Listen != "" {
		short("listeners", plaintext(f.Listen), "--listen")
	}
	if f.Advertise != "" {
		short("advertised.listeners", plaintext(f.Advertise), "--advertise")
	}
	for _, pair := range f.Set {
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			faults = append(faults, fmt.Errorf("--set %q is not KEY=VALUE", pair))
			continue
		}
		put(name, strings.TrimSpace(value), "--set")
	}
	return found, errors.Join(faults...)
}

// plaintext makes a listener of each HOST:PORT that does not name a protocol itself.
func plaintext(addresses string) string {
	parts := strings.Split(addresses, ",")
	for i, part := range parts {
		part = strings.TrimSpace(part)
		if !strings.Contains(part, "://") {
			part = "PLAINTEXT://" + part
		}
		parts[i] = part
	}
	return strings.Join(parts, ",")
}

const environPrefix = "MILLRACE_"

// parseEnviron reads MILLRACE_LOG_RETENTION_MS as log.retention.ms. The prefix of millrace's own settings
// may be left out: MILLRACE_ADMIN_LISTEN is millrace.admin.listen.
func parseEnviron(environ []string) (config.Settings, error) {
	var faults []error
	found := config.Settings{}
	for _, pair := range slices.Sorted(slices.Values(environ)) {
		variable, value, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(variable, environPrefix)
		if !ok || rest == "" || foreign(rest) {
			continue
		}
		name := strings.ReplaceAll(strings.ToLower(rest), "_", ".")
		if own := "millrace." + name; config.BrokerDefinition(name) == nil && config.BrokerDefinition(own) != nil {
			name = own
		}
		if before, ok := found[name]; ok {
			faults = append(faults, fmt.Errorf("%s is given twice, by %s and by environment %s", name, before.Origin, variable))
			continue
		}
		found[name] = config.Setting{Value: strings.TrimSpace(value), Origin: "environment " + variable}
	}
	return found, errors.Join(faults...)
}

// foreign names what carries the prefix without being a setting: what Kubernetes sets in every container
// beside a service called millrace (MILLRACE_PORT, MILLRACE_SERVICE_HOST, MILLRACE_PORT_9092_TCP_ADDR), and
// what the project's own test runs set.
func foreign(rest string) bool {
	for _, prefix := range []string{"SERVICE_", "PORT_", "TEST_", "CLIENTS_"} {
		if strings.HasPrefix(rest, prefix) {
			return true
		}
	}
	return rest == "PORT"
}
