package config

import (
	"errors"
	"fmt"
	"math"
)

// brokerTable lists the settings of brokers, without the defaults of topics, which come from the topics'.
func brokerTable() []*Definition {
	var list []*Definition
	list = append(list, brokerIdentity()...)
	list = append(list, brokerTopics()...)
	list = append(list, brokerNetwork()...)
	list = append(list, brokerGroups()...)
	list = append(list, brokerConsumerGroups()...)
	list = append(list, brokerOwn()...)
	list = append(list, brokerWithoutEffect()...)
	for _, d := range list {
		d.Scope = ScopeBroker
		if d.Standing == 0 {
			d.Standing = Effective
		}
		if d.Importance == 0 {
			d.Importance = Medium
		}
	}
	return list
}

func ranked(importance Importance, d *Definition) *Definition {
	d.Importance = importance
	return d
}

func dynamic(d *Definition) *Definition {
	d.Dynamic = true
	return d
}

func limited(name string, t Type, value string, low, high int64, doc string) *Definition {
	check, valid := between(low, high)
	return &Definition{Name: name, Type: t, Default: value, Check: check, Valid: valid, Doc: doc}
}

func brokerIdentity() []*Definition {
	return []*Definition{
		ranked(High, numbered("node.id", Int, "1", 0, "", "The id of this broker, unlike that of any other in the cluster. The data directory remembers it.")),
		ranked(High, &Definition{Name: "broker.id", Type: Int, Null: true,
			Doc: "The older name of node.id. Where both are set they must be equal."}),
		{Name: "broker.rack", Type: String, Null: true, Doc: "The rack or zone of this broker, told to clients."},
		ranked(High, &Definition{Name: "log.dirs", Type: List, Null: true,
			Doc: "The data directories, one for each disk, separated by commas. The first also keeps topics, settings, groups and offsets. A new partition goes to the one with the most room; one that fails takes only its partitions down. Where it is not set, log.dir counts."}),
		{Name: cordonedDirs, Type: List, Default: "", Dynamic: true,
			Doc: "Those of log.dirs that get no new partitions, * for all of them: then no topic can be made. What is in them stays, and is served."},
		dynamic(numbered("replica.alter.log.dirs.io.max.bytes.per.second", Long, "9223372036854775807", 1, "",
			"How many bytes may be copied in a second where partitions are moved between data directories. Producers do not wait for it.")),
		ranked(High, &Definition{Name: "log.dir", Type: String, Default: "millrace-data",
			Doc: "The one data directory, where log.dirs is not set. A relative one begins at the working directory."}),
		ranked(High, &Definition{Name: "listeners", Type: List, Default: "PLAINTEXT://127.0.0.1:9092",
			Doc: "The addresses to listen on, as NAME://HOST:PORT. An empty host or 0.0.0.0 means every address of the machine, and then advertised.listeners must be set."}),
		ranked(High, &Definition{Name: "advertised.listeners", Type: List, Null: true,
			Doc: "The addresses that clients are told to connect to, as NAME://HOST:PORT, by the name of the listener that they came through. Where one is not set it is that of listeners; the default listener is advertised as localhost."}),
		ranked(Low, &Definition{Name: "listener.security.protocol.map", Type: String,
			Default: "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
			Doc:     "The protocol of each listener, as NAME:PROTOCOL. PLAINTEXT is the only protocol so far."}),
	}
}

func brokerTopics() []*Definition {
	rate := func(v Parsed) error {
		if v.Double < 1024 {
			return fmt.Errorf("value must be at least 1024")
		}
		return nil
	}
	return []*Definition{
		limited("num.partitions", Int, "1", 1, 100_000, "How many partitions a topic gets that does not say so itself."),
		limited("default.replication.factor", Int, "1", 1, math.MaxInt16, "How many replicas a partition gets where its topic does not say so itself."),
		ranked(High, &Definition{Name: "auto.create.topics.enable", Type: Bool, Default: "true",
			Doc: "Whether a topic is made when a client asks for the metadata of one that does not exist, and allows it."}),
		ranked(High, &Definition{Name: "delete.topic.enable", Type: Bool, Default: "true", Doc: "Whether topics can be deleted."}),
		numbered("log.retention.check.interval.ms", Long, "300000", 1, "", "How often segments are looked at for deletion by retention."),
		{Name: "log.cleaner.enable", Type: Bool, Default: "true",
			Doc: "Whether partitions are compacted. Without it those with the policy 'compact' grow."},
		dynamic(numbered("log.cleaner.backoff.ms", Long, "15000", 1, "", "How often it is looked for partitions to compact.")),
		dynamic(numbered("log.cleaner.dedupe.buffer.size", Long, "134217728", 1<<20, "",
			"How much memory the keys of one compaction may take: 24 bytes for each, and half as much again for growing. What has more keys is compacted in several passes.")),
		checked(&Definition{Name: "log.cleaner.io.max.bytes.per.second", Type: Double, Default: "1.7976931348623157E308", Dynamic: true,
			Doc: "How many bytes compaction may read and write in a second."}, rate, "[1024,...]"),
		ranked(Low, dynamic(numbered("producer.id.expiration.ms", Int, "86400000", 1, "",
			"How long a partition remembers an idempotent producer that sends nothing."))),
	}
}

func brokerNetwork() []*Definition {
	overrides := func(v Parsed) error {
		_, err := parseOverrides(v.Text)
		return err
	}
	rate, rateValid := atLeast(1)
	return []*Definition{
		ranked(High, limited("socket.request.max.bytes", Int, "104857600", 1024, math.MaxInt32,
			"The largest request; a larger one closes its connection.")),
		numbered("queued.max.request.bytes", Long, "268435456", 1024, "",
			"How many bytes of requests may be in the broker at once, of all connections. Beyond it no more is read from sockets until some are answered."),
		limited("fetch.max.bytes", Int, "57671680", 1024, math.MaxInt32, "The most bytes that one fetch is answered with, whatever the client asks for."),
		limited("max.incremental.fetch.session.cache.slots", Int, "1000", 0, 1_000_000, "How many fetch sessions are kept for clients."),
		numbered("connections.max.idle.ms", Long, "600000", -1, "",
			"How long a connection may be idle before it is closed; -1 keeps it forever."),
		dynamic(limited("max.connections", Int, "2147483647", 1, math.MaxInt32,
			"How many connections there may be at once. The limit of open files bounds them besides.")),
		dynamic(limited(perAddressMax, Int, "2147483647", 0, math.MaxInt32, "How many connections one address may have at once.")),
		checked(&Definition{Name: connectionRate, Type: Int, Default: "2147483647", Dynamic: true, PerListener: true,
			Doc: "How many new connections may come in a second, after a quiet one as many at once; others wait until it is their turn. listener.name.NAME." + connectionRate + ", with the name in lower case, bounds those of one listener besides."}, rate, rateValid),
		checked(&Definition{Name: "max.connections.per.ip.overrides", Type: String, Default: "", Dynamic: true,
			Doc: "Limits of single addresses, as ADDRESS:COUNT,ADDRESS:COUNT. Addresses are numbers, host names are not looked up."},
			overrides, "ADDRESS:COUNT,..."),
	}
}

func brokerGroups() []*Definition {
	list := []*Definition{
		numbered("group.min.session.timeout.ms", Int, "6000", 0, "", "The shortest session timeout that a member of a group may ask for."),
		numbered("group.max.session.timeout.ms", Int, "1800000", 0, "", "The longest session timeout that a member of a group may ask for."),
		numbered("group.initial.rebalance.delay.ms", Int, "3000", 0, "",
			"How long the first members of an empty group wait for others, and again while others come, within their rebalance timeout."),
		numbered("group.max.size", Int, "2147483647", 1, "", "How many members a group may have."),
		ranked(High, numbered("offset.metadata.max.bytes", Int, "4096", 0, "", "How long the text may be that a client keeps with an offset.")),
		ranked(High, numbered("offsets.retention.minutes", Int, "10080", 1, "",
			"How long offsets are kept after the group lost its last member or, where it never had one, after they were committed.")),
		ranked(High, numbered("offsets.retention.check.interval.ms", Long, "600000", 1, "", "How often it is looked for offsets that have had their time.")),
	}
	return list
}

func brokerOwn() []*Definition {
	backend, backendValid := oneOf("auto", "ring", "posix")
	format, formatValid := oneOf("auto", "text", "json")
	slow, slowValid := between(0, math.MaxInt32)
	admin := func(v Parsed) error {
		if v.Text == "" {
			return nil
		}
		_, _, err := splitHostPort(v.Text)
		return err
	}
	token := func(v Parsed) error {
		if v.Text != "" && len(v.Text) < 16 {
			return errors.New("fewer than 16 characters can be guessed")
		}
		return nil
	}
	list := []*Definition{
		checked(&Definition{Name: "millrace.io.backend", Type: String, Default: "auto",
			Doc: "How files are written: 'ring' through io_uring, 'posix' by plain calls, 'auto' as a probe of the data directory finds. Force one to measure it, or where the probe is wrong."},
			backend, backendValid),
		limited("millrace.net.loops", Int, "0", 0, 1024,
			"How many event loops serve connections; 0 takes half of the CPUs. The program cannot know how many CPUs clients on the same machine need."),
		checked(&Definition{Name: "millrace.admin.listen", Type: String, Default: "127.0.0.1:9644",
			Doc: "The address of the admin page, /metrics, /healthz, /readyz and profiles, as HOST:PORT; empty for none. Beyond this host it needs millrace.admin.token."}, admin, "HOST:PORT"),
		checked(&Definition{Name: "millrace.admin.token", Type: Password, Default: "", Sensitive: true,
			Doc: "What the admin endpoint asks for in 'Authorization: Bearer TOKEN', and the page of who opens it; empty for nothing. /healthz and /readyz need none. It goes over the network as it is: put what ends TLS before it."},
			token, "16 characters or more"),
		limited("millrace.produce.decoded.bytes.max", Long, "67108864", 1<<20, math.MaxInt32,
			"How large one produced batch may get when it is decompressed; a larger one is answered with MESSAGE_TOO_LARGE. It counts against queued.max.request.bytes while it is decoded."),
		limited("millrace.net.outbound.bytes.max", Long, "4194304", 64<<10, math.MaxInt32,
			"How many bytes of answers may wait in one connection before no more requests are read from it. One answer may pass it."),
		limited("millrace.net.slow.reader.ms", Long, "60000", 100, math.MaxInt32,
			"How long a client may take nothing of what is waiting for it before it is cut off."),
		{Name: "millrace.meta.fsync", Type: Bool, Default: "true",
			Doc: "Whether changes of topics and settings are synced to disk before they are answered. Without it a power cut may take the newest of them; a killed process takes none."},
		checked(&Definition{Name: "millrace.log.level", Type: String, Default: "info", Dynamic: true,
			Doc: "What is logged at least, and after it what single components log, as in warn,engine=debug."}, logLevel, logLevelValid),
		checked(&Definition{Name: "millrace.log.slow.request.ms", Type: Long, Default: "1000", Dynamic: true,
			Doc: "From how long on a request is logged with the time of its phases, at most one a second; what it waits for records, or for its client to send and to take, does not count. 0 logs none."},
			slow, slowValid),
		checked(&Definition{Name: "millrace.log.format", Type: String, Default: "auto",
			Doc: "The form of the log: 'auto' is text on a terminal and JSON otherwise."}, format, formatValid),
	}
	for _, d := range list {
		d.Importance = Low
	}
	return list
}

// parseOverrides reads ADDRESS:COUNT,...; the count stands after the last colon, so that IPv6 addresses
// need no brackets.
func parseOverrides(text string) (map[string]int, error) {
	overrides := map[string]int{}
	for element := range splitList(text) {
		address, count, ok := cutLast(element, ':')
		n, isNumber := parseNumber(count, Int)
		if !ok || !isNumber || n < 0 {
			return nil, fmt.Errorf("%q is not ADDRESS:COUNT", element)
		}
		ip, err := parseAddress(address)
		if err != nil {
			return nil, fmt.Errorf("%q is not an address", address)
		}
		overrides[ip] = int(n)
	}
	return overrides, nil
}
