package peer

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const (
	// KafkaVersion is the release that is fetched where no installed one is named.
	KafkaVersion = "4.4.0"
	scalaVersion = "2.13"
	javaMin      = 17
	kafkaHeap    = "1g"
)

// kafkaJVM are the options that Kafka's own start script gives to a broker.
func kafkaJVM() []string {
	return []string{"-Xms" + kafkaHeap, "-Xmx" + kafkaHeap, "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
		"-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"}
}

// kafkaLogging sends warnings to the standard output.
const kafkaLogging = `appender.console.type=Console
appender.console.name=Console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=Console
`

// kafkaProperties is a broker that is its own controller. Beyond its addresses and directory only what one
// broker alone needs is set.
func kafkaProperties(dir string, broker, controller string, settings []string) string {
	lines := []string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.bootstrap.servers=127.0.0.1:" + controller,
		"controller.listener.names=CONTROLLER",
		"listeners=PLAINTEXT://127.0.0.1:" + broker + ",CONTROLLER://127.0.0.1:" + controller,
		"advertised.listeners=PLAINTEXT://127.0.0.1:" + broker + ",CONTROLLER://127.0.0.1:" + controller,
		"inter.broker.listener.name=PLAINTEXT",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs=" + filepath.Join(dir, "data"),
		"offsets.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
	}
	return strings.Join(append(lines, settings...), "\n") + "\n"
}

// Kafka returns the spec of an Apache Kafka whose jars lie in home, its libs or its lib. An empty home: the
// jars of KafkaVersion are taken from the user's cache directory, and brought there from Maven Central first.
// say is told what takes long.
func Kafka(ctx context.Context, home string, settings []string, say func(string)) (*Spec, error) {
	java, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	jars := ""
	if home != "" {
		jars, err = jarsOf(home)
	} else {
		jars, err = brokerJars().fetch(ctx, say)
	}
	if err != nil {
		return nil, err
	}
	jvm := strings.Join(kafkaJVM(), " ")
	s := &Spec{Name: "kafka", Version: kafkaVersionOf(jars), Configuration: "# JVM: " + java.version + "\n# " + jvm + "\n" + kafkaProperties("DIR", "PORT", "PORT", settings),
		Command: java.path + " " + jvm + " -cp '" + filepath.Join(jars, "*") + "' kafka.Kafka DIR/server.properties"}
	s.prepare = func(ctx context.Context, dir string, ports []int) ([]string, error) {
		properties, logging := filepath.Join(dir, "server.properties"), filepath.Join(dir, "log4j2.properties")
		text := kafkaProperties(dir, strconv.Itoa(ports[0]), strconv.Itoa(ports[1]), settings)
		if err := os.WriteFile(properties, []byte(text), 0o644); err != nil {
			return nil, err
		}
		if err := os.WriteFile(logging, []byte(kafkaLogging), 0o644); err != nil {
			return nil, err
		}
		common := []string{"-Dlog4j2.configurationFile=" + logging, "-Dkafka.logs.dir=" + filepath.Join(dir, "logs"), "-cp", filepath.Join(jars, "*")}
		format := append(append([]string{}, common...), "kafka.tools.StorageTool", "format", "--standalone", "-t", clusterID(), "-c", properties)
		if out, err := exec.CommandContext(ctx, java.path, format...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("format its directory: %w\n%s", err, endOf(out))
		}
		return append(append(append([]string{java.path}, kafkaJVM()...), common...), "kafka.Kafka", properties), nil
	}
	return s, nil
}

// clusterID is what Kafka takes for one: 16 random bytes. It takes none that begins like an option.
func clusterID() string {
	var raw [16]byte
	rand.Read(raw[:])
	raw[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

func endOf(out []byte) string {
	return strings.TrimSpace(string(out[max(0, len(out)-logEndMax):]))
}

// java is a virtual machine that is new enough.
type java struct{ path, version string }

const waysOut = "name an installed Kafka with --against-home DIR, or compare with a broker that runs already: --against HOST:PORT --against-pid PID"

var javaVersion = regexp.MustCompile(`version "(\d+)[^"]*"`)

func findJava(ctx context.Context) (java, error) {
	path := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		path = filepath.Join(home, "bin", "java")
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return java{}, fmt.Errorf("to run Apache Kafka needs Java %d or newer, and there is no %s: install it (on Debian: apt install default-jre-headless), or compare with a broker that runs already: --against HOST:PORT --against-pid PID", javaMin, path)
	}
	out, err := exec.CommandContext(ctx, found, "-version").CombinedOutput()
	if err != nil {
		return java{}, fmt.Errorf("%s -version: %w\n%s", found, err, endOf(out))
	}
	match := javaVersion.FindSubmatch(out)
	if match == nil {
		return java{}, fmt.Errorf("%s -version does not tell its version:\n%s", found, endOf(out))
	}
	if major, _ := strconv.Atoi(string(match[1])); major < javaMin {
		return java{}, fmt.Errorf("to run Apache Kafka needs Java %d or newer; %s is %s: set JAVA_HOME, or compare with a broker that runs already: --against HOST:PORT --against-pid PID", javaMin, found, match[0])
	}
	return java{found, strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "; ")}, nil
}

// jarsOf finds the directory with the jars of an installed Kafka.
func jarsOf(home string) (string, error) {
	for _, dir := range []string{filepath.Join(home, "libs"), filepath.Join(home, "lib"), home} {
		if kafkaVersionOf(dir) != "" {
			return filepath.Abs(dir)
		}
	}
	return "", fmt.Errorf("--against-home %s: neither it nor its libs or lib has kafka_%s-VERSION.jar", home, scalaVersion)
}

// kafkaVersionOf reads the version off the name of the broker's jar, "" where there is none.
func kafkaVersionOf(dir string) string {
	names, _ := filepath.Glob(filepath.Join(dir, "kafka_*.jar"))
	for _, name := range names {
		_, version, ok := strings.Cut(strings.TrimSuffix(filepath.Base(name), ".jar"), "-")
		if ok && !strings.Contains(version, "-test") && !strings.Contains(version, "-sources") {
			return version
		}
	}
	return ""
}
